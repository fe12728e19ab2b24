//! Isolation, limits, network and files of a sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Isolation of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// Namespaces by bubblewrap, with everything the design demands.
    #[default]
    Bubblewrap,
    /// A container of the machine's engine.
    Container,
    /// No isolation at all. Must be spelled out, and warns.
    None,
}

/// Resource limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Memory of all processes together, tmpfs included.
    pub memory_mib: u32,
    /// Size of the workspace and, each, of /tmp and /dev/shm.
    pub disk_mib: u32,
    /// Processes and threads.
    pub pids: u32,
    /// Hundredths of a CPU. 100 is one core.
    pub cpu_percent: u32,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { memory_mib: 256, disk_mib: 64, pids: 128, cpu_percent: 100 }
    }
}

/// Network of a sandbox (I9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// An empty network namespace, without loopback to the host.
    #[default]
    None,
    /// The host's network. Must be spelled out, and warns.
    Host,
    /// The container engine's ordinary bridge, which reaches the world. Must be spelled out, and warns.
    Public,
}

/// A file of the workspace. Paths are relative to it and stay inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FixtureFile {
    /// Relative path, `/`-separated, no `..`.
    pub path: String,
    /// Permission bits; [`LINK_MODE`] for a symbolic link.
    pub mode: u32,
    /// Content; of a symbolic link, where it leads.
    pub content: FixtureContent,
}

/// The mode of a symbolic link, as git writes it in its trees.
pub const LINK_MODE: u32 = 0o120_000;

/// Source of a fixture's bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixtureContent {
    /// Text in the plan itself.
    Inline(String),
    /// A file on the host, with the SHA-256 (hex) it had when the plan was made; anything else is a fault.
    Host {
        /// Absolute path.
        path: PathBuf,
        /// Hex SHA-256.
        sha256: String,
    },
}
