//! Standard output: the data that a command was asked for, and nothing else.
//!
//! I1. A reader that goes away early (`clawrl ls | head`) is no error.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Writes text as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Results, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a value as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(Exit::Internal, format!("the answer cannot be written as JSON: {error}"))
    })?;
    print(&(text + "\n"))
}
