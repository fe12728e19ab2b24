//! Collects the findings of an import: problems, which refuse it, and notes about what it leaves out.
//!
//! I1. A problem names its file, and the line if there is one. I2. If there is a problem, nothing is written.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use clawrl_config::{ConfigError, Problem, Source, Span};

/// Collects both, so that one import reports all problems at once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    notes: Vec<String>,
}

impl Findings {
    /// Refuses something at a place in a file.
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

    /// Refuses a whole file or folder.
    pub(crate) fn refuse_path(&mut self, path: &Path, message: impl Display, help: impl Into<String>) {
        self.problems.push(Problem::new(format!("`{}`: {message}", path.display()), help));
    }

    /// Whether a path exists. A path that may not be read is refused, and does not count as missing.
    pub(crate) fn has(&mut self, path: &Path) -> bool {
        path.try_exists().unwrap_or_else(|cause| {
            self.refuse_unreadable(path, &cause);
            false
        })
    }

    /// The entries of a folder, sorted.
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
        self.refuse_path(path, message, "make it and its parent folders readable for this user");
    }

    /// Adds the problems of another error.
    pub(crate) fn adopt(&mut self, error: &ConfigError) {
        self.problems.extend_from_slice(error.problems());
    }

    /// Notes what is left out or replaced.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Number of problems so far.
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
