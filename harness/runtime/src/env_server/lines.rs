//! Reads lines of the input.
//!
//! I1. Memory is bounded: a line that is too long is discarded. I2. The end of the input is noticed while a request is executed.
//! A last line without a line feed counts.
//!
//! The thread that reads ends with the input, or with the process, because a read cannot be cancelled.

use std::io::{self, BufRead};

use clawrl_core::CancelToken;
use tokio::sync::mpsc;

use crate::error::RuntimeError;

/// Maximum bytes of a line. A submitted diff has at most 8 MiB before it is encoded as JSON.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum queued lines. Clients make one request at a time; this is for clients that do not.
const WAITING: usize = 1;

/// A line, or the information that it was too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// Reads lines on a separate thread; fires the token at the end of the input.
///
/// # Errors
/// No thread can be started.
pub(super) fn read_lines(
    mut input: impl BufRead + Send + 'static,
    ended: CancelToken,
) -> Result<mpsc::Receiver<Line>, RuntimeError> {
    let (sender, lines) = mpsc::channel(WAITING);
    let read = move || {
        // A read error counts as the end of the input.
        while let Ok(Some(line)) = next(&mut input, MAX_LINE_BYTES) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
        ended.cancel();
    };
    std::thread::Builder::new().name("clawrl-input".to_owned()).spawn(read).map_err(|error| {
        let help = "raise `ulimit -u`";
        RuntimeError::unavailable(format!("cannot start a thread: {error}")).with_help(help)
    })?;
    Ok(lines)
}

/// The next line without its end; `None` at the end of the input.
fn next(input: &mut impl BufRead, most: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let (mut length, mut begun) = (0, false);
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() && !begun {
            return Ok(None);
        }
        begun = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        length += part.len();
        if length <= most {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let (taken, is_over) = (end.map_or(part.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        input.consume(taken);
        if is_over {
            return Ok(Some(if length <= most { Line::Whole(line) } else { Line::TooLong }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn i1_lines_are_whole_or_too_long() {
        let check = |text: &str, expected: &[Option<&str>]| {
            // Every buffer size gives the same result.
            for size in 1..=text.len() + 1 {
                let mut input = BufReader::with_capacity(size, text.as_bytes());
                let mut found = Vec::new();
                while let Some(line) = next(&mut input, 4).unwrap() {
                    found.push(match line {
                        Line::Whole(bytes) => Some(String::from_utf8(bytes).unwrap()),
                        Line::TooLong => None,
                    });
                }
                let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
                assert_eq!(found, expected, "{text:?} by {size}");
            }
        };
        check("", &[]);
        check("\n", &[Some("")]);
        check("one\ntwo\n", &[Some("one"), Some("two")]);
        check("one\ntwo", &[Some("one"), Some("two")]);
        check("four\nfifth\nsix\n", &[Some("four"), None, Some("six")]);
        check("very long", &[None]);
    }
}
