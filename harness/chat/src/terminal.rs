//! The client's terminal.

use std::fmt::Debug;
use std::io;

use serde_json::Value;

/// Standard output, for replies, and standard error, for everything else.
pub trait Terminal: Debug + Send + Sync {
    /// Writes one line for a person to standard error.
    fn note(&self, line: &str);

    /// Writes text to standard error without ending the line.
    fn write(&self, text: &str);

    /// Width of standard error, if it is a terminal.
    fn note_columns(&self) -> Option<usize>;

    /// Whether standard error is a terminal.
    fn has_notes_on_terminal(&self) -> bool;

    /// Whether colours are wanted.
    fn has_colours(&self) -> bool;

    /// Width of standard output, if it is a terminal.
    fn columns(&self) -> Option<usize>;

    /// Writes laid-out text to standard output, dimmed or not. False if it has no reader.
    ///
    /// # Errors
    /// Standard output cannot be written.
    fn print(&self, text: &str, is_dim: bool) -> io::Result<bool>;

    /// Writes one line of JSON to standard output. False if it has no reader.
    ///
    /// # Errors
    /// Standard output cannot be written.
    fn print_json_line(&self, line: &Value) -> io::Result<bool>;
}
