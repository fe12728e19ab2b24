//! What an import finds: problems that refuse it, and notes about what it leaves out.
//!
//! I1. A problem of a file names the file, and its line where there is one. I2. With a problem, nothing is written.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use clawrl_config::{ConfigError, Problem, Source, Span};

/// Gathers both, so that one import tells of everything at once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    notes: Vec<String>,
}

impl Findings {
    /// Refuses something that stands in a file.
    pub(crate) fn refuse(
        &mut self,
        source: &Arc<Source>,
        span: Span,
        label: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.push(Problem::new(message, help).at(source, span, label));
    }

    /// Refuses a file or folder as a whole.
    pub(crate) fn refuse_path(&mut self, path: &Path, message: impl Display, help: impl Into<String>) {
        self.problems.push(Problem::new(format!("`{}`: {message}", path.display()), help));
    }

    /// Whether there is something at a path. What may not be looked at is refused, and not called absent.
    pub(crate) fn has(&mut self, path: &Path) -> bool {
        path.try_exists().unwrap_or_else(|cause| {
            self.refuse_unreadable(path, &cause);
            false
        })
    }

    /// What is in a folder, in order.
    pub(crate) fn listing(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
        let mut paths = entries.unwrap_or_else(|cause| {
            self.refuse_unreadable(folder, &cause);
            Vec::new()
        });
        paths.sort();
        paths
    }

    fn refuse_unreadable(&mut self, path: &Path, cause: &io::Error) {
        let message = format_args!("cannot be read: {}", cause.kind());
        self.refuse_path(path, message, "make it and the folders above readable for this user");
    }

    /// Refuses what was found elsewhere.
    pub(crate) fn adopt(&mut self, error: &ConfigError) {
        self.problems.extend_from_slice(error.problems());
    }

    /// Says what is left out, or stands for something else.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Problems so far.
    pub(crate) fn count(&self) -> usize {
        self.problems.len()
    }

    /// The notes since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The problems as an error, if there are any.
    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        ConfigError::from_problems(self.problems).map_or(Ok(()), Err)
    }
}
