//! Runs shell scripts in a repository, with a git that uses only our configuration and the repository's own.
//!
//! Errors: a [`Fault`] of the machine. A failing script is not an error here; the caller interprets it.

use std::collections::BTreeMap;
use std::time::Instant;

use clawrl_core::{Boundary, Fault};
use clawrl_sandbox::{ExecError, ExecOutput, ExecSpec, Sandbox, SandboxCommand};

/// Prepended to every script. It uses only options that every version of git supports.
const PRELUDE: &str = "\
set -e
git() {
    command git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 \\
        -c maintenance.auto=false -c commit.gpgSign=false -c core.autocrlf=false -c core.quotePath=false \\
        -c core.excludesFile=/dev/null -c core.attributesFile=/dev/null -c protocol.allow=never \\
        -c core.ignoreCase=false -c core.fileMode=true -c core.symlinks=true -c core.precomposeUnicode=false \\
        -c core.safecrlf=false -c core.sparseCheckout=false -c core.bigFileThreshold=4m -c pack.threads=1 \"$@\"
}
";

/// Environment variables that users, machines and agents cannot influence.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_AUTHOR_NAME", "ClawRL"),
    ("GIT_AUTHOR_EMAIL", "clawrl@localhost"),
    ("GIT_AUTHOR_DATE", "1700000000 +0000"),
    ("GIT_COMMITTER_NAME", "ClawRL"),
    ("GIT_COMMITTER_EMAIL", "clawrl@localhost"),
    ("GIT_COMMITTER_DATE", "1700000000 +0000"),
];

/// A shell's exit code for a program that was not found.
pub(crate) const NOT_FOUND: i32 = 127;

/// A script, its arguments and its input.
#[derive(Debug, Clone)]
pub(crate) struct Script<'a> {
    /// For bash, in the workspace.
    pub(crate) text: &'a str,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) input: Vec<u8>,
    /// Environment variables of the task.
    pub(crate) variables: Option<&'a BTreeMap<String, String>>,
    pub(crate) output_cap: usize,
    pub(crate) deadline: Instant,
}

impl<'a> Script<'a> {
    /// Without arguments or input, and with short output.
    pub(crate) fn new(text: &'a str, deadline: Instant) -> Self {
        Self { text, arguments: &[], input: Vec::new(), variables: None, output_cap: 64 << 10, deadline }
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`ExecError`] when it was not run.
    pub(crate) async fn run(self, sandbox: &dyn Sandbox) -> Result<ExecOutput, ExecError> {
        let mut arguments = vec!["-c".to_owned(), format!("{PRELUDE}{}", self.text), "clawrl".to_owned()];
        arguments.extend(self.arguments.iter().map(|&argument| argument.to_owned()));
        let own = self.variables.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
        let variables = VARIABLES.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let spec = ExecSpec {
            command: SandboxCommand {
                program: "bash".to_owned(),
                arguments,
                environment: own.chain(variables).collect(),
            },
            input: self.input,
            output_cap: self.output_cap,
            deadline: self.deadline,
            user: None,
        };
        sandbox.exec(spec).await
    }

    /// Runs it in a sandbox that the agent never used, so that its failure is a fault.
    ///
    /// # Errors
    /// A [`Fault`] with the end of the script's output.
    pub(crate) async fn expect(self, sandbox: &dyn Sandbox, what: &str) -> Result<Vec<u8>, Fault> {
        let output = self.run(sandbox).await.map_err(Fault::from)?;
        match output.code {
            Some(0) => Ok(output.stdout),
            code => Err(failed(what, code, &output)),
        }
    }
}

/// The fault of a script that failed although no agent could have interfered.
pub(crate) fn failed(what: &str, code: Option<i32>, output: &ExecOutput) -> Fault {
    let said = last_lines(&output.stderr);
    match code {
        None => {
            Fault::transient(Boundary::Env, "repository", format!("{what} took too long; output: {said}"))
        }
        Some(NOT_FOUND) => Fault::permanent(
            Boundary::Env,
            "git-missing",
            format!("{what}: a program is missing: install git in the image, or on this machine ({said})"),
        ),
        Some(code) => Fault::permanent(
            Boundary::Env,
            "repository",
            format!("{what} failed with exit code {code}; output: {said}"),
        ),
    }
}

/// The end of a program's output.
pub(crate) fn last_lines(bytes: &[u8]) -> String {
    const SHOWN: usize = 400;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let from = text.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
    if text.is_empty() { "nothing".to_owned() } else { text[from..].to_owned() }
}
