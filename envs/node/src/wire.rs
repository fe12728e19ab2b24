//! The protocol between the two ends.
//!
//! One connection carries everything, by HTTP/2: each question is a request, so that many run concurrently, none blocks
//! another, and each can be cancelled. A body starts with a little-endian length (four bytes) and that much JSON; a
//! stream of data may follow. Both ends are built from the same source, so there is no version.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clawrl_core::{Determinism, Fault};
use clawrl_sandbox::{
    CopyReport, Exclusions, ExecError, FileKind, JobSignal, NotRun, ProcessFacts, ProgramSpec, PutFile,
    SafeReadError, SafeWriteError, SandboxCommand, SandboxSpec, ShellConfig, ShellError, TreeBound,
    TreeBounds, TreeError,
};
use serde::{Deserialize, Serialize};

/// A request, with the sandbox or program that it is about.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Hello,
    Enter(Box<EnterRequest>),
    /// The sandbox is no longer needed.
    Leave(u64),
    Sandbox(u64, SandboxRequest),
    Program(u64, ProgramRequest),
}

/// A running container, see [`clawrl_sandbox::RunningContainer`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnterRequest {
    pub(crate) spec: SandboxSpec,
    pub(crate) determinism: Determinism,
    pub(crate) pid: u32,
    pub(crate) mark: (String, String),
    pub(crate) user: String,
    pub(crate) workdir: String,
    pub(crate) commons: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) capabilities: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entered {
    pub(crate) sandbox: u64,
    pub(crate) identity: (u32, u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SandboxRequest {
    Put {
        files: Vec<PutFile>,
    },
    Lay {
        folder: String,
        files: Vec<PutFile>,
    },
    Read {
        path: String,
        cap: u64,
    },
    HasWorkspace,
    /// A tree follows the response.
    Workspace {
        bounds: TreeBounds,
    },
    /// A tree follows the response.
    CarryOut {
        inside: String,
        exclude: Exclusions,
        bounds: TreeBounds,
    },
    /// A tree follows the request.
    CarryIn {
        inside: String,
        bounds: TreeBounds,
    },
    /// A tree follows the request.
    Fill {
        folder: Option<String>,
        bounds: TreeBounds,
    },
    Exec(Exec),
    Open(ProgramSpec),
    Processes,
    KillProcesses {
        victims: Vec<ProcessFacts>,
    },
    Kill,
    Halt,
    Lost,
    Shell {
        config: ShellConfig,
        left: Duration,
    },
    Step {
        step: Step,
        left: Duration,
    },
    Cast,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exec {
    pub(crate) command: SandboxCommand,
    #[serde(with = "clawrl_sandbox::bytes")]
    pub(crate) input: Vec<u8>,
    pub(crate) output_cap: usize,
    pub(crate) left: Duration,
    pub(crate) user: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Run(String),
    Keys(String),
    Text(String),
    Wait(Duration),
    Signal(JobSignal),
    DropLine,
    Renew,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ProgramRequest {
    /// Its input follows the request.
    Input,
    /// Its output, and its end, follow the response.
    Said,
    Kill,
    Interrupt,
    /// It is no longer needed, and ended if it still runs.
    Close,
}

/// Output of a program. This many bytes follow; none stands for a closed pipe.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    Output(u32),
    Errors(u32),
    /// It has ended; nothing follows.
    End(Result<Option<i32>, WireExecError>),
}

/// A system error: its kind decides whether a retry is useful.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WireSystemError {
    /// An error number, which is the same on both ends: both run Linux.
    Numbered(i32),
    Message(String),
}

impl From<io::Error> for WireSystemError {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or_else(|| Self::Message(error.to_string()), Self::Numbered)
    }
}

impl From<WireSystemError> for io::Error {
    fn from(trouble: WireSystemError) -> Self {
        match trouble {
            WireSystemError::Numbered(number) => Self::from_raw_os_error(number),
            WireSystemError::Message(why) => Self::other(why),
        }
    }
}

/// A file or folder that was not read. Names that are not UTF-8 are written lossily.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireReadError {
    path: String,
    why: WireReadErrorKind,
}

#[derive(Debug, Serialize, Deserialize)]
enum WireReadErrorKind {
    Missing,
    Symlink,
    NotRegular(FileKind),
    NotFolder(FileKind),
    TooLarge { size: u64, cap: u64 },
    Escape,
    Changed,
    Bound { bound: TreeBound, limit: u64 },
    Unreadable(WireSystemError),
    NoOpenat2,
    Io(WireSystemError),
}

impl From<SafeReadError> for WireReadError {
    fn from(error: SafeReadError) -> Self {
        use SafeReadError as E;
        let (path, why) = match error {
            E::Missing { path } => (path, WireReadErrorKind::Missing),
            E::Symlink { path } => (path, WireReadErrorKind::Symlink),
            E::NotRegular { path, kind } => (path, WireReadErrorKind::NotRegular(kind)),
            E::NotFolder { path, kind } => (path, WireReadErrorKind::NotFolder(kind)),
            E::TooLarge { path, size, cap } => (path, WireReadErrorKind::TooLarge { size, cap }),
            E::Bound { path, bound, limit } => (path, WireReadErrorKind::Bound { bound, limit }),
            E::Escape { path } => (path, WireReadErrorKind::Escape),
            E::Changed { path } => (path, WireReadErrorKind::Changed),
            E::Unreadable { path, source } => (path, WireReadErrorKind::Unreadable(source.into())),
            E::NoOpenat2 => (PathBuf::new(), WireReadErrorKind::NoOpenat2),
            E::Io { path, source } => (path, WireReadErrorKind::Io(source.into())),
        };
        Self { path: written(&path), why }
    }
}

impl From<WireReadError> for SafeReadError {
    fn from(WireReadError { path, why }: WireReadError) -> Self {
        let path = PathBuf::from(path);
        match why {
            WireReadErrorKind::Missing => Self::Missing { path },
            WireReadErrorKind::Symlink => Self::Symlink { path },
            WireReadErrorKind::NotRegular(kind) => Self::NotRegular { path, kind },
            WireReadErrorKind::NotFolder(kind) => Self::NotFolder { path, kind },
            WireReadErrorKind::TooLarge { size, cap } => Self::TooLarge { path, size, cap },
            WireReadErrorKind::Bound { bound, limit } => Self::Bound { path, bound, limit },
            WireReadErrorKind::Escape => Self::Escape { path },
            WireReadErrorKind::Changed => Self::Changed { path },
            WireReadErrorKind::Unreadable(why) => Self::Unreadable { path, source: why.into() },
            WireReadErrorKind::NoOpenat2 => Self::NoOpenat2,
            WireReadErrorKind::Io(why) => Self::Io { path, source: why.into() },
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WireTreeError {
    Read(WireReadError),
    Bound { bound: TreeBound, limit: u64, path: String },
    NoRoom { path: String },
    Refused(WireReadError),
    HardLink { path: String },
    Full { path: String },
    TooLarge { path: String },
    Io { path: String, why: WireSystemError },
}

impl From<TreeError> for WireTreeError {
    fn from(error: TreeError) -> Self {
        use SafeWriteError as W;
        match error {
            TreeError::Read(error) => Self::Read(error.into()),
            TreeError::Bound { bound, limit, path } => Self::Bound { bound, limit, path: written(&path) },
            TreeError::NoRoom { path } => Self::NoRoom { path: written(&path) },
            TreeError::Write(W::Refused(error)) => Self::Refused(error.into()),
            TreeError::Write(W::HardLink { path }) => Self::HardLink { path: written(&path) },
            TreeError::Write(W::Full { path }) => Self::Full { path: written(&path) },
            TreeError::Write(W::TooLarge { path }) => Self::TooLarge { path: written(&path) },
            TreeError::Write(W::Io { path, source }) => Self::Io { path: written(&path), why: source.into() },
        }
    }
}

impl From<WireTreeError> for TreeError {
    fn from(trouble: WireTreeError) -> Self {
        use SafeWriteError as W;
        match trouble {
            WireTreeError::Read(trouble) => Self::Read(trouble.into()),
            WireTreeError::Bound { bound, limit, path } => Self::Bound { bound, limit, path: path.into() },
            WireTreeError::NoRoom { path } => Self::NoRoom { path: path.into() },
            WireTreeError::Refused(trouble) => Self::Write(W::Refused(trouble.into())),
            WireTreeError::HardLink { path } => Self::Write(W::HardLink { path: path.into() }),
            WireTreeError::Full { path } => Self::Write(W::Full { path: path.into() }),
            WireTreeError::TooLarge { path } => Self::Write(W::TooLarge { path: path.into() }),
            WireTreeError::Io { path, why } => Self::Write(W::Io { path: path.into(), source: why.into() }),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WireExecError {
    NotRun { obstacle: NotRun, message: String },
    Fault(Fault),
}

impl From<ExecError> for WireExecError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotRun { obstacle, message } => Self::NotRun { obstacle, message },
            ExecError::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl From<WireExecError> for ExecError {
    fn from(trouble: WireExecError) -> Self {
        match trouble {
            WireExecError::NotRun { obstacle, message } => Self::NotRun { obstacle, message },
            WireExecError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// A step that could not be done. Invalid requests of the agent are detected before they are sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WireShellError {
    Gone,
    NotStarted { output: String },
    NoPrompt { output: String },
    Signal(String),
    Terminal(String),
}

impl From<ShellError> for WireShellError {
    fn from(error: ShellError) -> Self {
        match error {
            ShellError::Gone => Self::Gone,
            ShellError::NotStarted { output } => Self::NotStarted { output },
            ShellError::NoPrompt { output } => Self::NoPrompt { output },
            ShellError::Signal(error) => Self::Signal(error.to_string()),
            ShellError::Terminal(error) => Self::Terminal(error.to_string()),
            other @ (ShellError::Command(_) | ShellError::Keys(_)) => Self::Terminal(other.to_string()),
        }
    }
}

impl From<WireShellError> for ShellError {
    fn from(trouble: WireShellError) -> Self {
        match trouble {
            WireShellError::Gone => Self::Gone,
            WireShellError::NotStarted { output } => Self::NotStarted { output },
            WireShellError::NoPrompt { output } => Self::NoPrompt { output },
            WireShellError::Signal(why) => Self::Signal(io::Error::other(why)),
            WireShellError::Terminal(why) => Self::Terminal(io::Error::other(why)),
        }
    }
}

/// A report with names that can be written.
pub(crate) fn reportable(report: CopyReport) -> CopyReport {
    CopyReport { skipped: report.skipped.renamed(|path| written(path).into()), ..report }
}

fn written(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error as the other end sees it.
    fn roundtrip(error: TreeError) -> TreeError {
        let json = serde_json::to_vec(&WireTreeError::from(error)).unwrap();
        serde_json::from_slice::<WireTreeError>(&json).unwrap().into()
    }

    #[test]
    fn retry_advice_survives_the_wire() {
        use rustix::io::Errno;
        let check = |source: io::Error, is_lasting: bool| {
            let error = TreeError::Write(SafeWriteError::Io { path: "a".into(), source });
            let text = error.to_string();
            let received = roundtrip(error);
            assert_eq!((received.is_lasting(), received.to_string()), (is_lasting, text));
        };
        check(Errno::ACCESS.into(), true);
        check(Errno::ROFS.into(), true);
        check(Errno::IO.into(), false);
        check(io::Error::other("odd"), false);
    }

    #[test]
    fn errors_keep_their_cause_over_the_wire() {
        let unreadable = SafeReadError::Unreadable { path: "a".into(), source: io::Error::other("closed") };
        let errors: [TreeError; 4] = [
            unreadable.into(),
            SafeReadError::Bound { path: "a".into(), bound: TreeBound::Depth, limit: 256 }.into(),
            TreeError::Bound { path: "a".into(), bound: TreeBound::Entries, limit: 9 },
            SafeWriteError::TooLarge { path: "a".into() }.into(),
        ];
        for error in errors {
            let expected = (error.to_string(), error.flag(), error.is_infrastructure());
            let received = roundtrip(error);
            assert_eq!((received.to_string(), received.flag(), received.is_infrastructure()), expected);
        }
    }
}
