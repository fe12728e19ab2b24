//! What a sandbox is made from, what runs in it, and what is known of that: plain data, without a backend.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{ImageSpec, LINK_MODE, NetworkPolicy, SandboxLimits};
use serde::{Deserialize, Serialize};

use crate::ready::READY;
use crate::safe_dir::{Owner, SafeDir, SafeWriteError};
use crate::seccomp::CallFilter;

/// Specification of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Unique within the run; part of the cgroup's name and of the process's label.
    pub label: String,
    /// The program on the sandbox's terminal. The sandbox lives as long as this program.
    pub main: SandboxCommand,
    /// What reports that the sandbox is ready.
    pub announced_by: Announcer,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Read-only files outside the workspace: absolute path inside, content.
    pub support_files: Vec<(String, String)>,
    /// Resource limits.
    pub limits: SandboxLimits,
    /// Network.
    pub network: NetworkPolicy,
    /// The root file system. `None`: the host's programs, read-only.
    pub image: Option<ImageSpec>,
    /// Initial content of the workspace.
    pub workspace: WorkspaceStart,
    /// Folders beside the workspace.
    pub folders: Vec<SandboxFolder>,
    /// Absolute paths of host folders that are mounted read-only inside, at the same paths.
    pub read_only: Vec<PathBuf>,
    /// Whether programs inside may make user namespaces, as browsers do for sandboxes of their own.
    pub inner_sandbox: bool,
}

impl SandboxSpec {
    pub(crate) fn filter(&self) -> CallFilter {
        if self.inner_sandbox { CallFilter::Browsers } else { CallFilter::Programs }
    }
}

/// Initial content of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WorkspaceStart {
    /// A copy of the image's content at that path; empty without an image.
    #[default]
    Image,
    /// Empty, whatever the image has there: a workspace is copied in later.
    Empty,
    /// As [`Self::Image`], for programs that only start there. The folder is never graded, copied or cleared, so in a
    /// container it may be any folder, even the root.
    Unseen,
}

/// A folder beside the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxFolder {
    /// Absolute path inside.
    pub path: String,
    /// The folder's files, which nothing inside can change. `None`: an empty, writable folder.
    pub files: Option<Vec<PutFile>>,
}

/// What prints the ready mark, and sets the process limit, which counts for this sandbox alone only when it is set
/// inside.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Announcer {
    /// A small shell that runs before the main program. It suits any program, at the cost of one more program to start.
    #[default]
    Wrapper,
    /// A `sh` script among the support files, named by its path. It must begin with [`announcement`] and receives the
    /// main program and its arguments.
    Script(String),
}

impl Announcer {
    /// The command line to put in front of the main program and its arguments; `sh` is the shell's path.
    pub(crate) fn before(&self, sh: &str, announcement: &str) -> Vec<String> {
        match self {
            Self::Wrapper => {
                let script = format!("{announcement}; exec \"$@\"");
                [sh, "-c", &script, "sh"].map(str::to_owned).to_vec()
            }
            Self::Script(path) => [sh, path].map(str::to_owned).to_vec(),
        }
    }
}

/// Shell code that prints the ready mark, for [`Announcer::Script`].
#[must_use]
pub fn announcement(limits: &SandboxLimits) -> String {
    // In dash, `ulimit -p` sets the limit that bash calls `-u`.
    let limit = limits.pids;
    format!("printf '%s' '{READY}'; ulimit -u {limit} 2>/dev/null || ulimit -p {limit}")
}

/// A program, its arguments and its additional environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxCommand {
    /// Program name, resolved in the sandbox's PATH.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Further variables.
    pub environment: BTreeMap<String, String>,
}

/// A file to write into a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutFile {
    /// Path relative to the workspace.
    pub path: String,
    /// Permission bits; [`LINK_MODE`] for a symbolic link.
    pub mode: u32,
    /// Content; for a symbolic link, its target.
    #[serde(with = "crate::bytes")]
    pub content: Arc<[u8]>,
}

impl PutFile {
    /// Writes the file into a folder, owned by `owner`, with the permission bits `mode`.
    ///
    /// # Errors
    /// As [`SafeDir::write_file`] and [`SafeDir::write_link`].
    pub(crate) fn write_to(
        &self,
        folder: &SafeDir,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<(), SafeWriteError> {
        if self.mode == LINK_MODE {
            folder.write_link(&self.path, &self.content, owner)
        } else {
            folder.write_file(&self.path, &self.content, mode, owner)
        }
    }
}

/// A program to start beside the main program, on pipes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The program.
    pub command: SandboxCommand,
    /// User to run as, in a container. `None`: the sandbox's user.
    pub user: Option<String>,
}

/// A program to run to completion beside the main program, on pipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// The program.
    pub command: SandboxCommand,
    /// Standard input.
    pub input: Vec<u8>,
    /// Maximum bytes kept of standard output and of standard error, each; the rest is read and discarded.
    pub output_cap: usize,
    /// The program is killed at this time.
    pub deadline: Instant,
    /// User to run as, in a container. `None`: the sandbox's user.
    pub user: Option<String>,
}

/// Result of an [`ExecSpec`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOutput {
    /// Exit code; 128 + n for signal n; `None` when the deadline killed it.
    pub code: Option<i32>,
    /// Standard output, up to the cap.
    #[serde(with = "crate::bytes")]
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    #[serde(with = "crate::bytes")]
    pub stderr: Vec<u8>,
    /// Wall time.
    pub duration: Duration,
}

/// A process inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Process id on the host.
    pub host_pid: u32,
    /// Process id of the parent on the host.
    pub host_parent: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Arguments joined by spaces.
    pub command_line: String,
}
