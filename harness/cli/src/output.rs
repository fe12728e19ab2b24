//! Standard output: the requested data and nothing else.
//!
//! I1. A reader that closes early (`clawrl ls | head`) is not an error. I2. Text of agents, environments and models
//! cannot control the terminal.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use clawrl_core::printable;
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Sequences that dim text and end dimming (ECMA-48, SGR).
const DIM: &str = "\u{1b}[2m";
const UNDIM: &str = "\u{1b}[22m";

/// Width of the terminal, if standard output is one and reports it.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    // A reported width near 0 means unknown.
    (size.ws_col >= 20).then(|| size.ws_col.into())
}

/// Writes text with control characters escaped.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&printable(text)).map(drop).map_err(unwritten)
}

/// Writes a piece of a streamed text, already free of foreign control sequences, dimmed or not. False if the reader has
/// closed.
pub(crate) fn print_laid_out(text: &str, is_dim: bool) -> io::Result<bool> {
    if is_dim { write(&format!("{DIM}{text}{UNDIM}")) } else { write(text) }
}

/// False if the reader has closed.
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

/// Writes JSON text.
pub(crate) fn print_json_text(json: &str) -> Result<(), Failure> {
    write(&(escaped(json) + "\n")).map(drop).map_err(unwritten)
}

/// Writes a value as one line of JSON; false if the reader has closed.
pub(crate) fn print_json_line(value: &serde_json::Value) -> io::Result<bool> {
    write(&(escaped(&value.to_string()) + "\n"))
}

/// Escapes control characters, which valid JSON contains only in strings.
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
