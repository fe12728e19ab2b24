//! Controls the process of a side. Dropping it kills the process.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;
use serde::de::DeserializeOwned;

use super::serving::{Arguments, END, Ended, LOOK, Listening, Look};
use crate::Failure;

/// Hidden subcommand of this program that serves a side.
const SUBCOMMAND: &str = "gateway-side";

/// A running side.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
}

impl Process {
    /// Starts a side and waits until it listens.
    pub(super) fn start(arguments: &Arguments) -> Result<Self, Failure> {
        let Arguments { side, tokens, token_micros, users, ledger } = arguments;
        let side = side.to_possible_value().ok_or("the side has no name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SUBCOMMAND, side.get_name()]);
        command.args(["--tokens", &tokens.to_string(), "--token-micros", &token_micros.to_string()]);
        command.args(["--users", &users.to_string(), "--ledger"]).arg(ledger);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the side has no pipes".into());
        };
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = Self { child, questions, answers: BufReader::new(answers), address: unknown };
        process.address = process.read::<Listening>()?.address;
        Ok(process)
    }

    /// Resources used so far.
    pub(super) fn look(&mut self) -> Result<Look, Failure> {
        self.say(LOOK)?;
        self.read()
    }

    /// Ends the process and waits for its end.
    pub(super) fn end(mut self) -> Result<Ended, Failure> {
        self.say(END)?;
        let ended = self.read()?;
        let status = self.child.wait()?;
        if status.success() { Ok(ended) } else { Err(format!("the side ended with {status}").into()) }
    }

    fn say(&mut self, what: &str) -> std::io::Result<()> {
        self.questions.write_all(format!("{what}\n").as_bytes())
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the side ended early with {}", self.child.wait()?).into());
        }
        serde_json::from_str(&line)
            .map_err(|error| format!("unexpected answer {line:?} of the side: {error}").into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
