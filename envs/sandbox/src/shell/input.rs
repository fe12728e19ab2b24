//! Encodes a command as bytes that make bash's line editor read exactly that command.
//!
//! The command is sent as one bracketed paste, so that nothing in it acts as an editing key, tabs complete nothing and
//! several lines arrive as one. Bytes that a paste cannot contain are sent around it, or are refused.
//!
//! Source: readline 8.2, `rl_bracketed_paste_begin` (turns CR into LF, ends at `ESC [ 2 0 1 ~`). Pure.

use thiserror::Error;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// C-v: the next byte is taken literally.
const QUOTED_INSERT: u8 = 0x16;

/// A command that cannot be typed into a terminal. Shown to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the command contains the control character 0x{byte:02x}, which a terminal does not pass on; write it as \
     $'\\x{byte:02x}'"
)]
pub struct CommandError {
    /// The first offending byte.
    pub byte: u8,
}

/// Whether a command can be typed.
///
/// # Errors
/// [`CommandError`] for NUL, and for what the kernel turns into signals or flow control before bash sees it.
pub fn check_command(command: &str) -> Result<(), CommandError> {
    let refused = |byte: &u8| matches!(byte, 0x00 | 0x03 | 0x11 | 0x13 | 0x1a | 0x1c);
    match command.as_bytes().iter().find(|byte| refused(byte)) {
        Some(&byte) => Err(CommandError { byte }),
        None => Ok(()),
    }
}

/// Appends the paste of `command` and the key that accepts it.
///
/// # Errors
/// As [`check_command`].
pub(super) fn push_command(command: &str, bytes: &mut Vec<u8>) -> Result<(), CommandError> {
    check_command(command)?;
    bytes.extend_from_slice(PASTE_BEGINS);
    let mut rest = command.as_bytes();
    while let Some(at) = memchr::memchr2(b'\r', 0x1b, rest) {
        let (before, special) = rest.split_at(at);
        bytes.extend_from_slice(before);
        if special[0] == b'\r' {
            bytes.extend_from_slice(PASTE_ENDS);
            bytes.extend_from_slice(&[QUOTED_INSERT, b'\r']);
            bytes.extend_from_slice(PASTE_BEGINS);
            rest = &special[1..];
        } else if special.starts_with(PASTE_ENDS) {
            // Half of the end mark at the end of one paste, the other half at the start of the next.
            let (first, second) = PASTE_ENDS.split_at(4);
            bytes.extend_from_slice(first);
            bytes.extend_from_slice(PASTE_ENDS);
            bytes.extend_from_slice(PASTE_BEGINS);
            bytes.extend_from_slice(second);
            rest = &special[PASTE_ENDS.len()..];
        } else {
            bytes.push(0x1b);
            rest = &special[1..];
        }
    }
    bytes.extend_from_slice(rest);
    bytes.extend_from_slice(PASTE_ENDS);
    bytes.push(b'\r');
    Ok(())
}

/// Appends text as if typed on a keyboard: a newline is the Enter key.
pub(super) fn push_typed(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend(text.bytes().map(|byte| if byte == b'\n' { b'\r' } else { byte }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: Result<&str, u8>) {
        let mut bytes = Vec::new();
        let result = push_command(command, &mut bytes);
        let got = result.map(|()| String::from_utf8(bytes).unwrap()).map_err(|error| error.byte);
        assert_eq!(got, expected.map(str::to_owned), "{command:?}");
    }

    #[test]
    fn commands_are_pasted() {
        check("echo a\n\tb", Ok("\x1b[200~echo a\n\tb\x1b[201~\r"));
        check("", Ok("\x1b[200~\x1b[201~\r"));
        check("a\x1b[0mb", Ok("\x1b[200~a\x1b[0mb\x1b[201~\r"));
    }

    #[test]
    fn unpasteable_bytes_are_sent_around_the_paste() {
        check("a\rb", Ok("\x1b[200~a\x1b[201~\x16\r\x1b[200~b\x1b[201~\r"));
        check("a\x1b[201~b", Ok("\x1b[200~a\x1b[20\x1b[201~\x1b[200~1~b\x1b[201~\r"));
    }

    #[test]
    fn bytes_consumed_by_the_kernel_are_refused() {
        check("a\0", Err(0));
        check("\x03", Err(3));
        insta::assert_snapshot!(CommandError { byte: 3 }, @"the command contains the control character 0x03, which a terminal does not pass on; write it as $'\\x03'");
    }
}
