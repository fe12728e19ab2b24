//! The agent's tools to view and edit files, with the agent's own permissions, in its own sandbox.
//!
//! E1. A file that cannot be read or written is reported to the agent: the cause is always the agent or its task. A
//! lost sandbox is a fault.

use std::time::Instant;

use clawrl_core::{Fault, fit_texts};
use clawrl_sandbox::{ExecError, ExecOutput, ExecSpec, Sandbox, SandboxCommand};
use memchr::memmem;

/// Maximum bytes of a file that is viewed or edited.
const FILE_CAP: usize = 4 << 20;

/// Lines shown around a change.
const AROUND: usize = 4;

/// Exit codes of the scripts.
const MISSING: i32 = 3;
const SPECIAL: i32 = 4;

/// Prints a file, or the entries of a folder after a first line that says which it is.
const READ: &str = r#"
if [ -d "$1" ]; then echo folder; exec ls -A -p -- "$1"; fi
if [ ! -e "$1" ]; then exit 3; fi
if [ ! -f "$1" ]; then exit 4; fi
echo file
exec cat -- "$1"
"#;

/// Writes standard input to a file; the file keeps its mode, and a link its target.
const WRITE: &str = r#"
mkdir -p -- "$(dirname -- "$1")" || exit 1
exec cat >"$1"
"#;

/// The agent's observation, with the uncut text if it was cut; or why nothing was done.
pub(crate) type ToolOutput = Result<(String, Option<String>), String>;

/// A file with line numbers, or the entries of a folder.
///
/// # Errors
/// A [`Fault`] when the sandbox is gone.
pub(crate) async fn view(
    sandbox: &dyn Sandbox,
    path: &str,
    lines: Option<(usize, usize)>,
    budget: usize,
    deadline: Instant,
) -> Result<ToolOutput, Fault> {
    let seen = match read(sandbox, path, deadline).await? {
        Err(reason) => return Ok(Err(reason)),
        Ok(Found::Folder(entries)) if entries.is_empty() => format!("[{path} is an empty folder]"),
        Ok(Found::Folder(entries)) => entries,
        Ok(Found::File(bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            let count = text.lines().count();
            match lines {
                Some((first, _)) if first > count => {
                    return Ok(Err(format!("{path} has {count} lines")));
                }
                Some((first, last)) => numbered(&text, first, last),
                None if text.is_empty() => format!("[{path} is empty]"),
                None => numbered(&text, 1, usize::MAX),
            }
        }
    };
    let cut = fit_texts(&[&seen], budget).pop().flatten();
    Ok(Ok(match cut {
        Some(cut) => (cut, Some(seen)),
        None => (seen, None),
    }))
}

/// Replaces a text that occurs once, or writes the whole file.
///
/// # Errors
/// A [`Fault`] when the sandbox is gone.
pub(crate) async fn edit(
    sandbox: &dyn Sandbox,
    path: &str,
    old: Option<&str>,
    new: &str,
    deadline: Instant,
) -> Result<ToolOutput, Fault> {
    let (content, first) = match old {
        None => (new.as_bytes().to_vec(), 1),
        Some(old) => match read(sandbox, path, deadline).await? {
            Err(reason) => return Ok(Err(reason)),
            Ok(Found::Folder(_)) => return Ok(Err(format!("{path} is a folder"))),
            Ok(Found::File(bytes)) => match replaced(&bytes, old, new) {
                Ok(replaced) => replaced,
                Err(reason) => return Ok(Err(format!("{path}: {reason}"))),
            },
        },
    };
    if content.len() > FILE_CAP {
        return Ok(Err(format!("{path} would have more than {FILE_CAP} bytes")));
    }
    let text = String::from_utf8_lossy(&content).into_owned();
    let written = match run(sandbox, WRITE, path, content, deadline).await? {
        Err(reason) => return Ok(Err(reason)),
        Ok(output) => output,
    };
    if written.code != Some(0) {
        return Ok(Err(format!("{path} cannot be written: {}", first_line(&written.stderr))));
    }
    let around = match old {
        None => String::new(),
        Some(_) => {
            let last = first + new.lines().count().max(1) - 1;
            format!("\n{}", numbered(&text, first.saturating_sub(AROUND).max(1), last + AROUND))
        }
    };
    Ok(Ok((format!("[{path} is written]{around}"), None)))
}

enum Found {
    File(Vec<u8>),
    Folder(String),
}

async fn read(sandbox: &dyn Sandbox, path: &str, deadline: Instant) -> Result<Result<Found, String>, Fault> {
    let output = match run(sandbox, READ, path, Vec::new(), deadline).await? {
        Err(reason) => return Ok(Err(reason)),
        Ok(output) => output,
    };
    Ok(match output.code {
        Some(0) if output.stdout.len() >= FILE_CAP => {
            Err(format!("{path} has more than {FILE_CAP} bytes; look at a part of it with `sed -n`"))
        }
        Some(0) => match output.stdout.strip_prefix(b"file\n") {
            Some(bytes) => Ok(Found::File(bytes.to_vec())),
            None => {
                let entries = output.stdout.strip_prefix(b"folder\n").unwrap_or_default();
                Ok(Found::Folder(String::from_utf8_lossy(entries).trim_end().to_owned()))
            }
        },
        Some(MISSING) => Err(format!("there is no {path}")),
        Some(SPECIAL) => Err(format!("{path} is neither a file nor a folder")),
        _ => Err(format!("{path} cannot be read: {}", first_line(&output.stderr))),
    })
}

/// Runs a script on a path. The inner error is for the agent.
async fn run(
    sandbox: &dyn Sandbox,
    script: &str,
    path: &str,
    input: Vec<u8>,
    deadline: Instant,
) -> Result<Result<ExecOutput, String>, Fault> {
    if path.is_empty() || path.contains('\0') {
        return Ok(Err("the path is empty, or no path".to_owned()));
    }
    let spec = ExecSpec {
        command: SandboxCommand {
            program: "/bin/sh".to_owned(),
            arguments: ["-c", script, "sh", path].map(str::to_owned).to_vec(),
            ..SandboxCommand::default()
        },
        input,
        output_cap: FILE_CAP,
        deadline,
        user: None,
    };
    match sandbox.exec(spec).await {
        Ok(output) if output.code.is_none() => Ok(Err(format!("{path}: it took too long"))),
        Ok(output) => Ok(Ok(output)),
        // E1. The agent may have used up the processes, or removed the folder.
        Err(ExecError::NotRun { message, .. }) => Ok(Err(message)),
        Err(ExecError::Fault(fault)) => Err(fault),
    }
}

/// The content with its only occurrence replaced, and the line where the replacement starts.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Result<(Vec<u8>, usize), String> {
    let mut found = memmem::find_iter(bytes, old.as_bytes());
    let Some(at) = found.next() else { return Err("`old` is not in it".to_owned()) };
    let more = found.count();
    if more > 0 {
        return Err(format!("`old` is in it {} times; take more of what is around it", more + 1));
    }
    let mut content = bytes[..at].to_vec();
    content.extend_from_slice(new.as_bytes());
    content.extend_from_slice(&bytes[at + old.len()..]);
    Ok((content, 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count()))
}

fn numbered(text: &str, first: usize, last: usize) -> String {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let shown = lines.skip(first - 1).take_while(|(number, _)| *number <= last);
    let shown: Vec<String> = shown.map(|(number, line)| format!("{number:>6}\t{line}")).collect();
    shown.join("\n")
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next().unwrap_or("no reason was given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, old: &str, new: &str, expected: Result<(&str, usize), &str>) {
        let found = replaced(content.as_bytes(), old, new);
        let expected = expected.map(|(text, line)| (text.as_bytes().to_vec(), line)).map_err(str::to_owned);
        assert_eq!(found, expected, "{content:?} {old:?}");
    }

    #[test]
    fn unique_text_is_replaced() {
        check("a\nb\nc\n", "b", "x\ny", Ok(("a\nx\ny\nc\n", 2)));
        check("a\nb\nc\n", "a\nb", "", Ok(("\nc\n", 1)));
        check("a\n", "b", "c", Err("`old` is not in it"));
        check("aaa", "a", "b", Err("`old` is in it 3 times; take more of what is around it"));
    }

    #[test]
    fn lines_have_their_numbers() {
        assert_eq!(numbered("a\nb\nc", 2, 9), "     2\tb\n     3\tc");
        assert_eq!(numbered("a", 1, 1), "     1\ta");
    }
}
