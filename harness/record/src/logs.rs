//! The two growing files, journal and trajectories, kept consistent with each other.
//!
//! I1. An append is all or nothing: if either file fails, both are truncated to their former length.
//! I2. Frames are written before the lines that refer to them.
//! I3. After a failed append or sync nothing more is written: the content of the disk is then unknown,
//!     until a resume reads it again.

use std::fs::File;
use std::io::{self, Write};

use thiserror::Error;

/// A file that is only appended to. Private: the real one, and one that fails on command in tests.
pub(crate) trait LogFile: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

/// Opened in append mode, so that writes go to the end even after a truncation.
impl LogFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The file that failed, and the error.
#[derive(Debug, Error)]
#[error("{file}: {source}")]
pub(crate) struct LogError {
    pub(crate) file: &'static str,
    pub(crate) source: io::Error,
}

/// Journal and trajectories of a run that is under way.
#[derive(Debug)]
pub(crate) struct Logs<F> {
    journal: F,
    frames: F,
    journal_len: u64,
    frames_len: u64,
}

impl<F: LogFile> Logs<F> {
    /// Takes over files with these lengths.
    pub(crate) fn new(journal: (F, u64), frames: (F, u64)) -> Self {
        let ((journal, journal_len), (frames, frames_len)) = (journal, frames);
        Self { journal, frames, journal_len, frames_len }
    }

    /// Offset of the next frame.
    pub(crate) fn frames_len(&self) -> u64 {
        self.frames_len
    }

    /// Appends frames, then lines.
    pub(crate) fn append(&mut self, frames: &[u8], lines: &[u8]) -> Result<(), LogError> {
        if !frames.is_empty()
            && let Err(source) = self.frames.append(frames)
        {
            self.roll_back();
            return Err(LogError { file: crate::files::TRAJECTORIES, source });
        }
        if let Err(source) = self.journal.append(lines) {
            self.roll_back();
            return Err(LogError { file: crate::files::JOURNAL, source });
        }
        self.frames_len += frames.len() as u64;
        self.journal_len += lines.len() as u64;
        Ok(())
    }

    /// Syncs both, frames first.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        self.frames.sync().map_err(|source| LogError { file: crate::files::TRAJECTORIES, source })?;
        self.journal.sync().map_err(|source| LogError { file: crate::files::JOURNAL, source })
    }

    fn roll_back(&mut self) {
        // If even this fails, the next resume cuts the torn tail.
        let _ = self.journal.truncate(self.journal_len);
        let _ = self.frames.truncate(self.frames_len);
    }
}
