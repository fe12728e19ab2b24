//! Reads the bytes of a journal, and finds torn and damaged parts.
//!
//! A line that does not decode starts the *tail* if no `synced` line after it decodes: these bytes were
//! written after the last `fdatasync`, and a loss of power may have kept any part of them. Otherwise it is
//! *damage*: the bytes were on the disk once and have changed since.
//!
//! I1. Reading any prefix of a journal gives the state of the lines that are complete in the prefix.
//! I2. A changed bit gives damage, or a tail that starts with the changed line; never another state.
//! I3. A line that decodes and breaks the state machine is damage, wherever it is.
//!
//! Errors: [`JournalError`], with line number and offset. Pure; nothing to cancel.

use clawrl_core::FORMAT_VERSION;
use serde::Serialize;
use thiserror::Error;

use crate::line::{self, LineError};
use crate::{Entry, FrameRef, JournalState, Line, Violation, migrate};

/// A torn tail, as found or cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailCut {
    /// The file: `journal.jsonl` or `trajectories.zst`.
    pub file: String,
    /// Number of the first line that is torn, from 1.
    pub line: u64,
    /// First byte of the journal that is cut.
    pub offset: u64,
    /// Number of bytes that are cut.
    pub bytes: u64,
    /// The error of the first torn line.
    pub reason: String,
}

/// Why a journal cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum JournalError {
    #[error("line {line} (byte {offset}) is damaged: {reason}")]
    Damaged { line: u64, offset: u64, reason: String },
    #[error("it has format {found}")]
    Newer { found: u32 },
}

/// A journal as replayed.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` when not even the first line is whole.
    pub(crate) state: Option<JournalState>,
    /// Bytes of whole lines.
    pub(crate) whole_bytes: u64,
    /// The bytes after them, if any.
    pub(crate) tail: Option<TailCut>,
    /// End of the last referenced frame.
    pub(crate) frames_end: u64,
    /// The same for frames that a `synced` line covers.
    pub(crate) synced_frames_end: u64,
    /// Frames that no `synced` line vouches for, with the line that refers to them, in order.
    pub(crate) unsynced: Vec<UnsyncedFrame>,
    /// All lines of the current format, for rewriting an older journal.
    pub(crate) migrated: Option<Vec<Line>>,
}

/// A frame that may be missing after a loss of power.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsyncedFrame {
    pub(crate) line: u64,
    pub(crate) offset: u64,
    pub(crate) frame: FrameRef,
}

struct Found<'a> {
    number: u64,
    offset: u64,
    bytes: &'a [u8],
    /// Whether it ends with a newline.
    whole: bool,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Found<'_>> {
    let mut offset = 0;
    (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')).map(move |(number, with_end)| {
        let start = offset;
        offset += with_end.len() as u64;
        let (bytes, whole) = match with_end.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (with_end, false),
        };
        Found { number, offset: start, bytes, whole }
    })
}

/// Replays a journal of this format or an older one.
pub(crate) fn replay(bytes: &[u8]) -> Result<Journal, JournalError> {
    let migrate_from = match migrate::journal_format(bytes) {
        Some(found) if found > FORMAT_VERSION => return Err(JournalError::Newer { found }),
        Some(found) if found < FORMAT_VERSION => Some(found),
        Some(_) | None => None,
    };
    let mut journal = Journal {
        state: None,
        whole_bytes: 0,
        tail: None,
        frames_end: 0,
        synced_frames_end: 0,
        unsynced: Vec::new(),
        migrated: migrate_from.map(|_| Vec::new()),
    };
    for found in lines(bytes) {
        let decoded = match (found.whole, migrate_from) {
            (false, _) => Err("it does not end in a newline".to_owned()),
            (true, None) => line::decode(found.bytes).map_err(|error: LineError| error.to_string()),
            (true, Some(format)) => {
                migrate::journal_line(found.bytes, format).map_err(|error| error.to_string())
            }
        };
        match decoded {
            Ok(decoded) => journal.take(&found, decoded)?,
            Err(reason) => {
                let rest = &bytes[found.offset as usize..];
                if proves_damage(rest, migrate_from.is_some()) {
                    return Err(JournalError::Damaged { line: found.number, offset: found.offset, reason });
                }
                journal.tail = Some(TailCut {
                    file: "journal.jsonl".to_owned(),
                    line: found.number,
                    offset: found.offset,
                    bytes: rest.len() as u64,
                    reason,
                });
                break;
            }
        }
    }
    Ok(journal)
}

/// Whether the lines after a broken line show that it was once on the disk.
fn proves_damage(rest: &[u8], older_format: bool) -> bool {
    let mut later = lines(rest).skip(1).filter(|found| found.whole);
    if older_format {
        // Format 0 has neither checksums nor `synced`: only its very last line may be torn.
        return later.next().is_some();
    }
    later.any(|found| matches!(line::decode(found.bytes), Ok(Line { entry: Entry::Synced, .. })))
}

impl Journal {
    fn take(&mut self, found: &Found<'_>, line: Line) -> Result<(), JournalError> {
        let violated = |violation: Violation| JournalError::Damaged {
            line: found.number,
            offset: found.offset,
            reason: violation.to_string(),
        };
        match &mut self.state {
            None => self.state = Some(JournalState::open(&line).map_err(violated)?),
            Some(state) => state.apply(&line).map_err(violated)?,
        }
        match &line.entry {
            Entry::Resolved(summary) => {
                let frame = summary.frame;
                self.frames_end = self.frames_end.max(frame.end());
                self.unsynced.push(UnsyncedFrame { line: found.number, offset: found.offset, frame });
            }
            Entry::Synced => {
                self.unsynced.clear();
                self.synced_frames_end = self.frames_end;
            }
            _ => {}
        }
        self.whole_bytes = found.offset + found.bytes.len() as u64 + 1;
        if let Some(migrated) = &mut self.migrated {
            migrated.push(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
