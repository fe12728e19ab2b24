//! Settings of terminals and workspaces: shell, files, environment and limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FixtureFile, ImageSpec, NetworkPolicy, SandboxKind, SandboxLimits};

/// Settings of a terminal environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminalSpec {
    /// Program in the sandbox's PATH: `bash`.
    pub shell: String,
    /// Files laid into the workspace before anything runs.
    pub files: Vec<FixtureFile>,
    /// Commands run before the first observation; one that fails is a setup fault.
    pub setup: Vec<String>,
    /// Variables added to the clean environment.
    pub env: BTreeMap<String, String>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// How long a silent program that may wait for input keeps the step open before it returns `running`.
    pub idle: Duration,
    /// Most characters of output an observation shows.
    pub observation_chars: u32,
    /// Isolation.
    pub sandbox: SandboxKind,
    /// Resource limits.
    pub limits: SandboxLimits,
    /// Network.
    pub network: NetworkPolicy,
    /// The root file system. Without one: the host's programs, read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSpec>,
    /// Absolute paths of the host's folders that are seen inside at the same paths, read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<PathBuf>,
}

/// A sandbox with a workspace, for programs without a terminal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceSpec {
    /// Files laid into the workspace before anything runs.
    pub files: Vec<FixtureFile>,
    /// Variables added to the clean environment.
    pub env: BTreeMap<String, String>,
    /// Isolation.
    pub sandbox: SandboxKind,
    /// Resource limits.
    pub limits: SandboxLimits,
    /// Network.
    pub network: NetworkPolicy,
    /// The root file system. Without one: the host's programs, read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSpec>,
    /// Absolute paths of the host's folders that are seen inside at the same paths, read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<PathBuf>,
}

/// The graded part of a terminal.
impl From<&TerminalSpec> for WorkspaceSpec {
    fn from(terminal: &TerminalSpec) -> Self {
        Self {
            files: terminal.files.clone(),
            env: terminal.env.clone(),
            sandbox: terminal.sandbox,
            limits: terminal.limits,
            network: terminal.network,
            image: terminal.image.clone(),
            read_only: terminal.read_only.clone(),
        }
    }
}

/// A task that says nothing about its terminal.
impl Default for TerminalSpec {
    fn default() -> Self {
        Self {
            shell: "bash".to_owned(),
            files: Vec::new(),
            setup: Vec::new(),
            env: BTreeMap::new(),
            size: (80, 24),
            idle: Duration::from_millis(500),
            observation_chars: 4_000,
            sandbox: SandboxKind::default(),
            limits: SandboxLimits::default(),
            network: NetworkPolicy::default(),
            image: None,
            read_only: Vec::new(),
        }
    }
}
