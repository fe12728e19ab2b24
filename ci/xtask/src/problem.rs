//! One broken rule, at one place.

use std::fmt;

/// A broken rule and its place, printed as `path:line: message` so that editors can jump to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    path: String,
    /// Counted from 1.
    line: usize,
    message: String,
}

impl Problem {
    pub(crate) fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
