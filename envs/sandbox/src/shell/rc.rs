//! What bash is started with, so that its prompts carry marks.
//!
//! Only prompt strings are used, no PROMPT_COMMAND and no function: nothing runs, so `set -x`, `set -e`, DEBUG and
//! ERR traps, `$_` and PIPESTATUS see nothing of it. A prompt string is shown only when bash really waits for a
//! line: between the lines of one paste its number rises but nothing is shown. It is short, because readline takes
//! longer for each invisible character of a prompt than for a whole system call.
//!
//! Source: bash 5.2, `decode_prompt_string` (a prompt is expanded after its escapes were decoded), FinalTerm's
//! OSC 133 for the letters.

use std::fmt;

use clawrl_core::stable_hash;
use serde::{Deserialize, Serialize};

/// Tells this session's marks from other text. Not a secret: programs in the session can read it.
///
/// `set` shows it, so derive it from the slot's seed where observations must repeat.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(String);

impl Nonce {
    /// 16 hex digits of the bytes' hash.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("{:016x}", stable_hash(&bytes)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nonce({})", self.0)
    }
}

/// The text of bash's start file. To be laid, read-only, at a path that [`bash_arguments`] is given.
#[must_use]
pub fn rc_script(nonce: &Nonce) -> String {
    let settings = [
        // An exclamation mark in a command is no history reference.
        "set +H",
        "unset HISTFILE MAILCHECK TMOUT PROMPT_COMMAND",
        "bind 'set bell-style none' 2>/dev/null",
    ];
    format!("{}\n{}\n{}\n", settings.join("\n"), editor_settings("\n"), prompt_settings(nonce, 0, "\n"))
}

/// Arguments of `bash` for a start file at `rc_path`.
#[must_use]
pub fn bash_arguments(rc_path: &str) -> Vec<String> {
    ["--noprofile", "--rcfile", rc_path, "-i"].map(str::to_owned).to_vec()
}

/// Variables that bash and the programs in it need to find.
#[must_use]
pub fn terminal_environment() -> Vec<(String, String)> {
    // Key bindings of the agent's home would change what typing does.
    [("TERM", "xterm-256color"), ("INPUTRC", "/dev/null")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// One line that puts back what [`rc_script`] set, and the terminal's settings. Short enough for a line that the
/// kernel gathers (4,095 bytes).
pub(super) fn repair_line(nonce: &Nonce, last_number: u64) -> String {
    format!(
        " set -o emacs; {}; shopt -s promptvars; stty sane 2>/dev/null; {}\r",
        editor_settings("; "),
        prompt_settings(nonce, last_number, "; ")
    )
}

fn editor_settings(separator: &str) -> String {
    // Old readlines do not know the second; without it each paste is drawn twice.
    ["bind 'set enable-bracketed-paste on' 2>/dev/null", "bind 'set enable-active-region off' 2>/dev/null"]
        .join(separator)
}

fn prompt_settings(nonce: &Nonce, last_number: u64, separator: &str) -> String {
    let key = format!("clawrl={}.", nonce.0);
    [
        format!("__clawrl_n={last_number}"),
        format!(r"PS1='\[\e]133;D;$?;{key}$((__clawrl_n+=1));${{PWD@Q}}\a\]\$ '"),
        format!(r"PS2='\[\e]133;A;k=s;{key}${{__clawrl_n}}\a\]> '"),
    ]
    .join(separator)
}

/// Whether this is all of what our prompts show after their mark.
pub(super) fn is_prompt_text(text: &[u8], continuation: bool) -> bool {
    if continuation { text == b"> " } else { text == b"$ " || text == b"# " }
}

/// Bytes of that.
pub(super) const PROMPT_TEXT_BYTES: usize = 2;

/// Undoes bash's `@Q` quoting. Bytes that are no UTF-8 become U+FFFD; `None` when it is not such a quoting.
pub(super) fn unquote(quoted: &[u8]) -> Option<String> {
    let bytes = if let Some(body) = quoted.strip_prefix(b"$'").and_then(|body| body.strip_suffix(b"'")) {
        unquote_escapes(body)?
    } else {
        let body = quoted.strip_prefix(b"'")?.strip_suffix(b"'")?;
        let text = String::from_utf8_lossy(body);
        return Some(text.replace(r"'\''", "'"));
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn unquote_escapes(body: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b'E' | b'e' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|byte| matches!(byte, b'0'..=b'7')) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(quoted: &str, expected: Option<&str>) {
        assert_eq!(unquote(quoted.as_bytes()).as_deref(), expected, "{quoted}");
    }

    #[test]
    fn folders_are_unquoted() {
        check("'/a b/é'", Some("/a b/é"));
        check(r"'/it'\''s'", Some("/it's"));
        check(r"$'/a\ab\n\'\E\\\001\303\251'", Some("/a\x07b\n'\x1b\\\x01é"));
        check(r"$'\377'", Some("\u{fffd}"));
        check("/a", None);
        check(r"$'\777'", None);
        check(r"$'a\'", None);
    }

    #[test]
    fn the_repair_fits_a_kernel_line() {
        let line = repair_line(&Nonce::from_bytes([0xff; 16]), u64::MAX);
        assert!(line.len() < 1_024, "{}", line.len());
    }

    #[test]
    fn start_file() {
        insta::assert_snapshot!(rc_script(&Nonce::from_bytes([0xab; 16])));
    }
}
