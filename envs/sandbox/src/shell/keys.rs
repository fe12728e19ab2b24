//! Names of keys and the bytes that an xterm sends for them.
//!
//! A key is one character (`a`, `é`, `:`), a name (`Enter`, `Escape`, `PageUp`, `F5`), or either with the prefixes
//! `C-`, `M-` and `S-` (`C-c`, `M-x`, `S-Tab`, `C-Left`). Keys are separated by white space. Names are
//! case-insensitive.
//!
//! Source: XTerm Control Sequences, "PC-Style Function Keys". Pure; nothing to cancel.

use thiserror::Error;

/// Which sequences the terminal's program expects for cursor keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CursorKeys {
    /// `ESC [ A`.
    #[default]
    Normal,
    /// `ESC O A`: requested by full-screen programs (DECCKM).
    Application,
}

/// Why a text is not a list of keys. Shown to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text is empty.
    #[error("no key was given; name keys separated by spaces, for example `C-c` or `Escape : q Enter`")]
    Empty,
    /// An unknown key name.
    #[error(
        "there is no key `{name}`; keys are single characters, C-<letter>, M-<letter>, Enter, Escape, Tab, \
         Space, Backspace, Delete, Insert, Up, Down, Left, Right, Home, End, PageUp, PageDown and F1 to F12"
    )]
    Unknown {
        /// The name as written.
        name: String,
    },
}

/// The bytes of a white-space separated list of keys.
///
/// # Errors
/// [`KeyError`] at the first unknown key; nothing should be sent then.
pub fn parse_keys(keys: &str, cursor_keys: CursorKeys) -> Result<Vec<u8>, KeyError> {
    let mut bytes = Vec::new();
    for name in keys.split_whitespace() {
        push_key(name, cursor_keys, &mut bytes).ok_or_else(|| KeyError::Unknown { name: name.to_owned() })?;
    }
    if bytes.is_empty() { Err(KeyError::Empty) } else { Ok(bytes) }
}

/// Whether `name` is a single key.
#[must_use]
pub fn is_known_key(name: &str) -> bool {
    !name.contains(char::is_whitespace) && push_key(name, CursorKeys::Normal, &mut Vec::new()).is_some()
}

#[derive(Debug, Clone, Copy, Default)]
struct Modifiers {
    control: bool,
    meta: bool,
    shift: bool,
}

impl Modifiers {
    /// xterm's parameter; 1 means no modifier.
    fn parameter(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.meta) + 4 * u8::from(self.control)
    }
}

fn push_key(name: &str, cursor_keys: CursorKeys, bytes: &mut Vec<u8>) -> Option<()> {
    let (modifiers, base) = split_modifiers(name);
    let mut characters = base.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return push_character(character, modifiers, bytes);
    }
    let lower = base.to_ascii_lowercase();
    let plain = match lower.as_str() {
        "enter" | "return" => '\r',
        "tab" if modifiers.shift => {
            bytes.extend_from_slice(b"\x1b[Z");
            return Some(());
        }
        "tab" => '\t',
        "escape" | "esc" => '\x1b',
        "space" => ' ',
        "backspace" => '\x7f',
        _ => return push_function_key(&lower, modifiers, cursor_keys, bytes),
    };
    push_character(plain, modifiers, bytes)
}

fn split_modifiers(name: &str) -> (Modifiers, &str) {
    let mut modifiers = Modifiers::default();
    let mut base = name;
    while let Some((prefix, rest)) = base.split_once('-') {
        if rest.is_empty() {
            break;
        }
        match prefix.to_ascii_lowercase().as_str() {
            "c" | "ctrl" => modifiers.control = true,
            "m" | "alt" => modifiers.meta = true,
            "s" | "shift" => modifiers.shift = true,
            _ => break,
        }
        base = rest;
    }
    (modifiers, base)
}

fn push_character(character: char, modifiers: Modifiers, bytes: &mut Vec<u8>) -> Option<()> {
    let character = if modifiers.shift { character.to_ascii_uppercase() } else { character };
    if modifiers.meta {
        bytes.push(0x1b);
    }
    if modifiers.control {
        bytes.push(match character {
            'a'..='z' | '@'..='_' => character.to_ascii_uppercase() as u8 & 0x1f,
            ' ' | '2' => 0,
            '/' => 0x1f,
            '?' => 0x7f,
            '\x7f' => 0x08,
            _ => return None,
        });
    } else {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(())
}

fn push_function_key(
    name: &str,
    modifiers: Modifiers,
    cursor_keys: CursorKeys,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    let parameter = modifiers.parameter();
    let (letter, application) = match name {
        "up" => (b'A', cursor_keys),
        "down" => (b'B', cursor_keys),
        "right" => (b'C', cursor_keys),
        "left" => (b'D', cursor_keys),
        "home" => (b'H', cursor_keys),
        "end" => (b'F', cursor_keys),
        "f1" => (b'P', CursorKeys::Application),
        "f2" => (b'Q', CursorKeys::Application),
        "f3" => (b'R', CursorKeys::Application),
        "f4" => (b'S', CursorKeys::Application),
        _ => {
            let number: u8 = match name {
                "insert" | "ins" => 2,
                "delete" | "del" => 3,
                "pageup" | "pgup" => 5,
                "pagedown" | "pgdn" => 6,
                "f5" => 15,
                "f6" => 17,
                "f7" => 18,
                "f8" => 19,
                "f9" => 20,
                "f10" => 21,
                "f11" => 23,
                "f12" => 24,
                _ => return None,
            };
            let sequence = if parameter == 1 {
                format!("\x1b[{number}~")
            } else {
                format!("\x1b[{number};{parameter}~")
            };
            bytes.extend_from_slice(sequence.as_bytes());
            return Some(());
        }
    };
    match (parameter, application) {
        (1, CursorKeys::Normal) => bytes.extend_from_slice(&[0x1b, b'[', letter]),
        (1, CursorKeys::Application) => bytes.extend_from_slice(&[0x1b, b'O', letter]),
        _ => bytes.extend_from_slice(&[0x1b, b'[', b'1', b';', b'0' + parameter, letter]),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(keys: &str, expected: &[u8]) {
        let got = parse_keys(keys, CursorKeys::Normal);
        assert_eq!(got.as_deref(), Ok(expected), "{keys}");
    }

    #[test]
    fn bytes_of_keys() {
        check("C-c", b"\x03");
        check("c-C Ctrl-D", b"\x03\x04");
        check("M-x", b"\x1bx");
        check("C-M-a", b"\x1b\x01");
        check("Escape : w q Enter", b"\x1b:wq\r");
        check("a B é -", "aBé-".as_bytes());
    }

    #[test]
    fn bytes_of_named_keys() {
        check("Tab S-Tab Space Backspace Delete", b"\t\x1b[Z \x7f\x1b[3~");
        check("Up Down Right Left Home End", b"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F");
        check("PageUp PGDN F1 F4 F5 F12", b"\x1b[5~\x1b[6~\x1bOP\x1bOS\x1b[15~\x1b[24~");
        check("C-Left S-F5 M-Up", b"\x1b[1;5D\x1b[15;2~\x1b[1;3A");
        check("C-Space C-[ C-_ C-?", b"\0\x1b\x1f\x7f");
        assert_eq!(
            parse_keys("Up C-Up", CursorKeys::Application).as_deref(),
            Ok(b"\x1bOA\x1b[1;5A".as_slice())
        );
    }

    #[test]
    fn unknown_keys_are_named() {
        for name in ["Foo", "C-é", "C--", "F13", "X-a", "^C"] {
            assert_eq!(
                parse_keys(&format!("a {name}"), CursorKeys::Normal),
                Err(KeyError::Unknown { name: name.to_owned() })
            );
            assert!(!is_known_key(name));
        }
        assert_eq!(parse_keys("  ", CursorKeys::Normal), Err(KeyError::Empty));
        assert!(is_known_key("C-c") && is_known_key("Escape") && is_known_key("x") && !is_known_key("a b"));
    }

    proptest! {
        #[test]
        fn never_panics(keys in ".{0,40}") {
            let _ = parse_keys(&keys, CursorKeys::Application);
        }
    }
}
