//! A tmux session inside the sandbox, driven as Harbor drives it.
//!
//! Source: Harbor 0.24.0, `harbor/agents/terminus_2/tmux_session.py`: `start`, `send_keys`, `get_incremental_output`.
//! Deviations: no recording, no search for missing programs, and a polling loop for [`Ending::Polled`].

use clawrl_sandbox::{BubblewrapBackend, Pty, Sandbox, SandboxBackend, SandboxCommand};

use crate::Failure;
use crate::terminals::{Shell, read_until, sandbox};

/// Runs each line with `bash -c`, as `exec` of Harbor's environments does, and prints the exit code between two marks
/// after the output. The terminal is raw, so that lines are not echoed or changed.
const EXECUTOR: &str = r#"stty raw -echo; printf '\0360\036'
while IFS= read -r line; do bash -c "$line" </dev/null; printf '\036%d\036' $?; done"#;
const MARK: u8 = 0x1e;

const START: &str = "export TERM=xterm-256color && export SHELL=/bin/bash && tmux new-session -x 160 -y 40 -d -s main \
                     'bash --login' \\; pipe-pane -t main 'cat > /tmp/main.log'";
const HISTORY: &str = "tmux set-option -g history-limit 10000000";
const SEND: &str = "tmux send-keys -t main -- 'echo hello' Enter";
const SEND_AND_SIGNAL: &str = "tmux send-keys -t main -- 'echo hello' '; tmux wait -S done' Enter";
const WAIT: &str = "timeout 180.0s tmux wait done";
const CAPTURE_ALL: &str = "tmux capture-pane -p -S - -t main";
const CAPTURE_SCREEN: &str = "tmux capture-pane -p -t main";
const ANSWER: &str = "hello";

/// Limit on screen reads per answer; each takes milliseconds.
const MAX_READS: u32 = 10_000;

/// How the end of a command is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The command line signals its end through tmux: Harbor's `block=True`.
    Waited,
    /// Keys are sent with `block=False`, then the screen is read until answer and prompt are there. This is possible only
    /// because the answer is known; it is the minimum that tmux takes.
    Polled,
}

/// A tmux session and its sandbox.
pub(super) struct TmuxShell {
    ending: Ending,
    sandbox: Box<dyn Sandbox>,
    pty: Pty,
    seen: Vec<u8>,
    previous: Option<String>,
}

impl TmuxShell {
    /// Starts tmux in a new sandbox.
    pub(super) async fn start(backend: &BubblewrapBackend, ending: Ending) -> Result<Self, Failure> {
        let main = SandboxCommand {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), EXECUTOR.to_owned()],
            ..SandboxCommand::default()
        };
        let started = backend.start(sandbox(main)).await?;
        let pty = Pty::from_master(started.terminal.master()?)?;
        let sandbox = started.sandbox;
        let mut shell = Self { ending, sandbox, pty, seen: Vec::new(), previous: None };
        shell.output().await?;
        shell.exec(START).await?;
        shell.exec(HISTORY).await?;
        Ok(shell)
    }

    async fn exec(&mut self, command: &str) -> Result<String, Failure> {
        self.pty.write_all(format!("{command}\n").as_bytes()).await?;
        match self.output().await? {
            (output, "0") => Ok(output),
            (output, code) => Err(format!("`{command}` ended with {code}: {output}").into()),
        }
    }

    /// Output and exit code of the command that runs.
    async fn output(&mut self) -> Result<(String, &str), Failure> {
        read_until(&self.pty, &mut self.seen, |seen| split(seen).is_some()).await?;
        let (output, code) = split(&self.seen).ok_or("output without an exit code")?;
        Ok((String::from_utf8_lossy(output).into_owned(), str::from_utf8(code)?))
    }

    async fn incremental_output(&mut self) -> Result<String, Failure> {
        let current = self.exec(CAPTURE_ALL).await?;
        let previous = self.previous.replace(current.clone());
        let new = previous.as_deref().and_then(|previous| new_content(previous, &current));
        match new {
            Some(new) if !new.trim().is_empty() => Ok(format!("New Terminal Output:\n{new}")),
            _ => Ok(format!("Current Terminal Screen:\n{}", self.exec(CAPTURE_SCREEN).await?)),
        }
    }
}

impl Shell for TmuxShell {
    async fn step(&mut self) -> Result<(), Failure> {
        match self.ending {
            Ending::Waited => {
                self.exec(SEND_AND_SIGNAL).await?;
                self.exec(WAIT).await?;
                let output = self.incremental_output().await?;
                let answered = output.lines().any(|line| line == ANSWER);
                if answered { Ok(()) } else { Err(format!("a step of tmux: {output}").into()) }
            }
            Ending::Polled => {
                self.exec(SEND).await?;
                for _ in 0..MAX_READS {
                    if is_answered(&self.incremental_output().await?) {
                        return Ok(());
                    }
                }
                Err("tmux did not show the answer".into())
            }
        }
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.sandbox.kill().await?)
    }
}

/// Whether the answer is there and the shell shows its prompt again. The screen before the command also ends with a
/// prompt, but the output never includes an earlier answer: it begins with the last line of the previous screen.
fn is_answered(output: &str) -> bool {
    let mut lines = output.trim_end().lines().rev();
    lines.next().is_some_and(|line| line.ends_with('$')) && lines.next() == Some(ANSWER)
}

/// Output and exit code, once both are complete.
fn split(seen: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = seen.strip_suffix(&[MARK])?;
    let at = body.iter().rposition(|&byte| byte == MARK)?;
    Some((&body[..at], &body[at + 1..]))
}

/// Harbor's `_find_new_content`: the text after the last line of the previous capture.
fn new_content<'a>(previous: &str, current: &'a str) -> Option<&'a str> {
    let previous = previous.trim();
    let at = current.find(previous)?;
    current.get(previous.rfind('\n').unwrap_or(at)..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_needs_both_marks() {
        let check = |seen: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(output, code)| (output.as_bytes(), code.as_bytes()));
            assert_eq!(split(seen.as_bytes()), expected, "{seen:?}");
        };
        check("a\nb\n\u{1e}0\u{1e}", Some(("a\nb\n", "0")));
        check("\u{1e}127\u{1e}", Some(("", "127")));
        check("a\u{1e}12", None);
        check("\u{1e}", None);
    }

    #[test]
    fn answered_needs_answer_and_prompt() {
        let check = |output: &str, expected: bool| assert_eq!(is_answered(output), expected, "{output:?}");
        check("New Terminal Output:\n\n$ echo hello\nhello\n$\n\n", true);
        check("New Terminal Output:\n\n$ echo hello\nhello\n\n", false);
        check("New Terminal Output:\n\n$ echo hello\n\n", false);
        check("New Terminal Output:\n\n$\n\n", false);
    }

    #[test]
    fn new_content_follows_previous_screen() {
        let check = |previous: &str, current: &str, expected: Option<&str>| {
            assert_eq!(new_content(previous, current), expected, "{previous:?} to {current:?}");
        };
        check("$ a\n1\n$\n\n", "$ a\n1\n$ b\n2\n$\n", Some("\n$ b\n2\n$\n"));
        check("$", "$ a\n1\n", Some("$ a\n1\n"));
        check("gone", "$ a", None);
    }
}
