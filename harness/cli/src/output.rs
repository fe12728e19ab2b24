//! Standard output: the data that a command was asked for, and nothing else.
//!
//! I1. A reader that goes away early (`clawrl ls | head`) is no error. I2. What agents, environments and models wrote does
//! nothing to a terminal, wherever it stands in what is written.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use clawrl_core::printable;
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Turns brightness down and back, as terminals know it (ECMA-48, SGR).
const DIM: &str = "\u{1b}[2m";
const UNDIM: &str = "\u{1b}[22m";

/// Columns of the terminal that standard output is, if it is one and says so.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    // What says that it has none, or hardly any, does not know.
    (size.ws_col >= 20).then(|| size.ws_col.into())
}

/// Writes text, with what would act on a terminal spelled out.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&printable(text)).map(drop).map_err(unwritten)
}

/// Writes a piece of a text that goes on, in which nothing is left that others may have a terminal do; dimmed or not. False where its
/// reader has gone away, who needs no more pieces.
pub(crate) fn print_laid_out(text: &str, is_dim: bool) -> io::Result<bool> {
    if is_dim { write(&format!("{DIM}{text}{UNDIM}")) } else { write(text) }
}

/// False where its reader has gone away.
fn write(text: &str) -> io::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(Exit::Results, format!("cannot write to standard output: {error}"))
}

/// Writes a value as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(Exit::Internal, format!("the answer cannot be written as JSON: {error}"))
    })?;
    print_json_text(&text)
}

/// Writes JSON that is text already.
pub(crate) fn print_json_text(json: &str) -> Result<(), Failure> {
    write(&(escaped(json) + "\n")).map(drop).map_err(unwritten)
}

/// Writes a value as one line of JSON; false where its reader has gone away.
pub(crate) fn print_json_line(value: &serde_json::Value) -> io::Result<bool> {
    write(&(escaped(&value.to_string()) + "\n"))
}

/// The same JSON: what would act on a terminal can stand in strings alone, where it may be escaped.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(printable(c.encode_utf8(&mut [0; 4])), std::borrow::Cow::Borrowed(_)) {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i2_json_stays_what_it_says() {
        let check = |text: &str, expected: &str| {
            let json = serde_json::to_string_pretty(&[text]).unwrap();
            assert_eq!(escaped(&json), format!("[\n  \"{expected}\"\n]"));
            let read: Vec<String> = serde_json::from_str(&escaped(&json)).unwrap();
            assert_eq!(read, [text]);
        };
        check("plain ☃", "plain ☃");
        check("\u{1b}[2J\r\n\0", r"\u001b[2J\r\n\u0000");
        check("\u{9b}31m\u{202e}\u{e0041}", r"\u009b31m\u202e\udb40\udc41");
    }
}
