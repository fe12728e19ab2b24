//! Start files that make bash's prompts carry marks.
//!
//! Only prompt strings are used, no PROMPT_COMMAND: nothing runs, so `set -x`, `set -e`, DEBUG and ERR traps, `$_` and
//! PIPESTATUS are unaffected. A prompt string is shown only when bash really waits for a line: between the lines of one
//! paste its number rises but nothing is shown. It is short, because readline spends more time on each invisible
//! character of a prompt than on a whole system call.
//!
//! If a prompt came without a mark, a key of the line editor calls the function `__clawrl`. It writes to `/dev/tty`
//! which prompt it is, and restores the prompts. A key changes no line, so nothing of it gets into a here-document, an
//! answer to `read -e` or the history. While the shell's standard error is not the terminal, the line editor's drawing
//! is not visible: then the prompts are empty, and a command substitution in them writes the mark to `/dev/tty`.
//!
//! K1. A supervisor script starts another bash when one has ended, and reports it. The workspace's folder, the terminal
//! and background programs stay.
//!
//! Source: bash 5.2, `decode_prompt_string` (a prompt is expanded after its escapes were decoded) and
//! `bash_execute_unix_command` (the command of a key runs between two keys; exit code, PIPESTATUS and the parser are
//! unchanged after it), FinalTerm's OSC 133 for the letters D and A.

use std::fmt;

use clawrl_core::stable_hash;
use serde::{Deserialize, Serialize};

/// Distinguishes this session's marks from other text. Not a secret: programs in the session can read it.
///
/// `set` shows it, so derive it from the slot's seed if observations must be reproducible.
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

/// The text of bash's start file. Write it, read-only, at the path that [`bash_arguments`] is given.
#[must_use]
pub fn rc_script(nonce: &Nonce) -> String {
    format!("{}\n", settings(nonce, 0).join("\n"))
}

/// Arguments of `bash` for a start file at `rc_path`.
#[must_use]
pub fn bash_arguments(rc_path: &str) -> Vec<String> {
    ["--noprofile", "--rcfile", rc_path, "-i"].map(str::to_owned).to_vec()
}

/// A script for `sh`, which receives bash and its arguments: it runs `announcement`, then one bash after the other.
/// Write it, read-only, as the script of [`crate::Announcer::Script`].
#[must_use]
pub fn supervisor_script(nonce: &Nonce, announcement: &str) -> String {
    let key = &nonce.0;
    // Job control gives the terminal to each bash, and takes it back from one that was killed. The trap is for a
    // program that replaced bash by `exec` and was interrupted: some shells then interrupt themselves. A bash that can
    // no longer be started is not retried for ever.
    format!(
        r#"{announcement}
set -m
trap : INT
n=0
while :; do
  "$@"
  s=$? n=$((n+1))
  [ "$n" -lt {MAX_SHELLS} ] || exit "$s"
  stty sane 2>/dev/null
  printf '\033]133;P;%d;clawrl={key}.%d\007' "$s" "$n"
done
"#
    )
}

/// Variables that bash and its programs need to find.
#[must_use]
pub fn terminal_environment() -> Vec<(String, String)> {
    // Key bindings from the agent's home would change what typing does.
    [("TERM", "xterm-256color"), ("INPUTRC", "/dev/null")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// Maximum number of shells that one supervisor starts.
const MAX_SHELLS: u32 = 1_000;

/// The key that calls `__clawrl`: C-x C-_, which readline binds to nothing.
pub(super) const REPORT_KEY: &[u8] = b"\x18\x1f";

/// A line that restores what [`rc_script`] set, and the terminal's settings. Only for a prompt known to be primary.
pub(super) const REPAIR_LINE: &[u8] = b" __clawrl 1 || :\r";

/// A line that sets in another bash what [`rc_script`] sets. Only for its first prompt.
pub(super) fn adoption_line(nonce: &Nonce, last_number: u64) -> String {
    format!(" {{ {}; {FORGET}; }}", settings(nonce, last_number).join("; "))
}

/// Each setting is a line of its own, and all can be joined to one. No exclamation mark in them is a history reference.
fn settings(nonce: &Nonce, last_number: u64) -> Vec<String> {
    let key = &nonce.0;
    let first = [
        // An exclamation mark in a command is not a history reference.
        "set +H",
        "unset HISTFILE MAILCHECK TMOUT PROMPT_COMMAND",
        "bind 'set bell-style none' 2>/dev/null",
    ];
    let prompts = [
        format!("__clawrl_k={key} __clawrl_n={last_number} __clawrl_p=0"),
        format!("__clawrl_paste() {{ {PASTE}; }}"),
        format!("__clawrl_forms() {{ {FORMS}; }}"),
        format!("__clawrl_mark() {{ {MARK}; }}"),
        format!(
            "__clawrl() {{ {REMEMBER}; if (($#)); then stty sane 2>/dev/null; {FORGET}; else {REPORT}; fi; {REPAIR}; }}"
        ),
        "__clawrl_paste; __clawrl_forms; PS1=$__clawrl_1 PS2=$__clawrl_2".to_owned(),
    ];
    let keys = ["emacs-standard", "vi-insert", "vi-command"]
        .map(|map| format!(r#"bind -m {map} -x '"\C-x\C-_": __clawrl || :' 2>/dev/null"#));
    first.map(str::to_owned).into_iter().chain(prompts).chain(keys).collect()
}

/// Old readlines do not know the second setting; without it each paste is drawn twice.
const PASTE: &str =
    "bind 'set enable-bracketed-paste on' 2>/dev/null; bind 'set enable-active-region off' 2>/dev/null";

/// Sets `__clawrl_1` and `__clawrl_2` to the values that PS1 and PS2 must have. `__clawrl_n` is the number of the last
/// primary prompt, `__clawrl_p` is 1 while a continuation prompt is the last one.
const FORMS: &str = concat!(
    "if [[ -t 2 ]]; then ",
    r"__clawrl_1='\[\e]133;D;$?;clawrl='$__clawrl_k'.$((__clawrl_p=0,__clawrl_n+=1));${PWD@Q}\a\]\$ ' ",
    r"__clawrl_2='\[\e]133;A;k=s;clawrl='$__clawrl_k'.$((__clawrl_p=1,__clawrl_n))\a\]> '; ",
    "else ",
    r"__clawrl_1='${__clawrl_n:(__clawrl_p=0,__clawrl_n+=1,0):0}$(__clawrl_mark $?)' ",
    r"__clawrl_2='${__clawrl_n:(__clawrl_p=1,0):0}$(__clawrl_mark)'; ",
    "fi"
);

/// Writes the mark of a prompt that is not drawn on the terminal; with an exit code, of a primary one.
const MARK: &str = concat!(
    "{ set +x; } 2>/dev/null; ",
    r#"if (($#)); then printf '\e]133;E;%d;clawrl=%s.%d;%s\a' "$1" "$__clawrl_k" "$__clawrl_n" "${PWD@Q}"; "#,
    r#"else printf '\e]133;E;k=s;clawrl=%s.%d\a' "$__clawrl_k" "$__clawrl_n"; fi >/dev/tty"#
);

/// Saves, before anything changes, the exit code and which settings are unchanged, see [`super::mark::Report`].
const REMEMBER: &str = concat!(
    "{ local __clawrl_e=$? __clawrl_f= __clawrl_o=$-; set +xu; } 2>/dev/null; ",
    r#"[[ $PS1 != *"$__clawrl_1" ]] || __clawrl_f+=1; "#,
    r#"[[ $PS2 != *"$__clawrl_2" ]] || __clawrl_f+=2; "#,
    "[[ $BASHOPTS != *promptvars* ]] || __clawrl_f+=v; ",
    "[[ $__clawrl_p != 1 ]] || __clawrl_f+=c; ",
    "if [[ -t 2 ]]; then __clawrl_f+=t; fi; ",
    "[[ $__clawrl_n == +([0-9]) ]] || __clawrl_n=0"
);

const REPORT: &str = r#"printf '\e]133;R;%d;clawrl=%s.%d;%s\a' "$__clawrl_e" "$__clawrl_k" "$__clawrl_n" "$__clawrl_f" >/dev/tty"#;

/// Removes our own line that is being run from the history, if it is there.
const FORGET: &str = concat!(
    "__clawrl_h=$(HISTTIMEFORMAT= history 1); ",
    "[[ $__clawrl_h != *__clawrl* ]] || history -d $((${__clawrl_h%%[^0-9 ]*})) 2>/dev/null; unset __clawrl_h"
);

/// Restores the prompts. An assignment to a read-only variable would end the function.
const REPAIR: &str = concat!(
    "if [[ -o emacs || -o vi ]]; then :; else set -o emacs; fi; shopt -s promptvars; __clawrl_paste; ",
    "__clawrl_forms; ",
    "[[ ${PS1@a} == *r* ]] || PS1=$__clawrl_1; [[ ${PS2@a} == *r* ]] || PS2=$__clawrl_2; ",
    "{ [[ $__clawrl_o != *u* ]] || set -u; [[ $__clawrl_o != *x* ]] || set -x; } 2>/dev/null"
);

/// Whether this is exactly the visible text of our prompts after their mark.
pub(super) fn is_prompt_text(text: &[u8], continuation: bool) -> bool {
    if continuation { text == b"> " } else { text == b"$ " || text == b"# " }
}

pub(super) const PROMPT_TEXT_BYTES: usize = 2;

/// Undoes bash's `@Q` quoting. Invalid UTF-8 becomes U+FFFD; `None` when it is not such a quoting.
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
    fn no_line_is_changed_by_history_expansion() {
        let line = adoption_line(&Nonce::from_bytes([0xff; 16]), u64::MAX);
        assert!(!line.contains('\n'));
        // bash does not quote before an equals sign.
        assert!(!line.replace("!=", "").contains('!'), "{line}");
    }

    #[test]
    fn supervisor() {
        insta::assert_snapshot!(supervisor_script(&Nonce::from_bytes([0xab; 16]), "printf ready"));
    }

    #[test]
    fn start_file() {
        insta::assert_snapshot!(rc_script(&Nonce::from_bytes([0xab; 16])));
    }
}
