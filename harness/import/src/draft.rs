//! A task before it is written into a suite.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clawrl_config::{Node, NodeValue, literal};
use serde::Serialize;
use serde_json::Value;

use crate::tree::{Tree, TreeFile};

/// The parts of a suite that rows or pages become.
#[derive(Debug, Default)]
pub(crate) struct SuiteParts {
    /// Keys of the suite before its tasks.
    pub(crate) head: Vec<(&'static str, Node)>,
    pub(crate) tasks: Vec<Node>,
    pub(crate) fixtures: Vec<Fixture>,
    /// Ids of the tasks and templates.
    pub(crate) ids: Vec<String>,
    /// Number of tasks, if templates make several.
    pub(crate) count: Option<usize>,
    /// Entries of the import record.
    pub(crate) records: Vec<Value>,
    /// By task id, or for the whole import: what was left out or replaced.
    pub(crate) notes: Vec<(String, String)>,
}

/// A file of the suite's folder.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    /// Relative to the suite's folder.
    pub(crate) path: String,
    pub(crate) content: FixtureSource,
    /// Permission bits.
    pub(crate) mode: u32,
}

/// Where the bytes of a fixture come from.
#[derive(Debug, Clone)]
pub(crate) enum FixtureSource {
    File(PathBuf),
    Bytes(Vec<u8>),
    /// A symbolic link, with its target.
    Link(String),
}

impl FixtureSource {
    /// The content of a file.
    pub(crate) fn of(file: &TreeFile) -> Self {
        match &file.link {
            Some(link) => Self::Link(link.target.clone()),
            None => Self::File(file.from.clone()),
        }
    }
}

/// A root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageDraft {
    pub(crate) source: ImageOrigin,
    pub(crate) workdir: Option<String>,
    pub(crate) user: Option<String>,
}

/// The origin of a root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageOrigin {
    Name(String),
    Build { folder: String, dockerfile: String, timeout_secs: u64 },
    Rootfs(String),
}

/// How an attempt is graded.
#[derive(Debug, Clone)]
pub(crate) struct VerifierDraft {
    /// A folder in the suite's folder.
    pub(crate) files: String,
    pub(crate) run: String,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) user: Option<String>,
    pub(crate) timeout_secs: f64,
    pub(crate) network: &'static str,
    pub(crate) reward: &'static str,
    pub(crate) apart: Option<ApartDraft>,
}

/// The environment of a separate verifier.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApartDraft {
    pub(crate) image: Option<ImageDraft>,
    pub(crate) artifacts: Vec<ArtifactDraft>,
    /// Commands, with their time limits.
    pub(crate) collect: Vec<(String, f64)>,
}

/// Files that are copied from the agent's environment to the verifier's.
#[derive(Debug, Clone)]
pub(crate) struct ArtifactDraft {
    pub(crate) source: String,
    pub(crate) exclude: Vec<String>,
}

/// One action of an oracle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Run(String),
    Text(String),
    Keys(String),
    Wait(f64),
}

/// Resources that a task asks for, in the units of a suite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory_mib: u64,
    pub(crate) disk_mib: u64,
    pub(crate) pids: u64,
    pub(crate) cpu_percent: u64,
}

/// The defaults for tasks that ask for nothing: enough for a compiler or a test runner.
impl Default for Limits {
    fn default() -> Self {
        Self { memory_mib: 2048, disk_mib: 1024, pids: 512, cpu_percent: 100 }
    }
}

/// Time limits in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Durations {
    pub(crate) lease: f64,
    pub(crate) setup: f64,
    /// Limit of the agent, and of one step: one command may take all of it.
    pub(crate) agent: f64,
    pub(crate) grade: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct TaskDraft {
    pub(crate) id: String,
    pub(crate) instruction: String,
    pub(crate) max_turns: u32,
    pub(crate) durations: Durations,
    pub(crate) sandbox: &'static str,
    pub(crate) network: &'static str,
    pub(crate) image: ImageDraft,
    /// Folder in the suite's folder; its files are copied into the workspace.
    pub(crate) files: Option<String>,
    pub(crate) setup: Vec<String>,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) limits: Limits,
    pub(crate) verifier: VerifierDraft,
    pub(crate) oracle: Vec<Action>,
    pub(crate) fixtures: Vec<Fixture>,
    pub(crate) record: TaskRecord,
}

/// The origin of a task, for the import record.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct TaskRecord {
    pub(crate) id: String,
    /// The name in the task's own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Name of the task's folder.
    pub(crate) folder: String,
    /// Harbor's digest of the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// Image names, with the links to the unpacked root file systems that replace them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rootfs: BTreeMap<String, String>,
    /// The parts that were left out or replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl TaskRecord {
    /// The origin of a task folder.
    pub(crate) fn of(folder: &Path, id: &str) -> Self {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { id: id.to_owned(), folder, ..Self::default() }
    }
}

/// The files of a tree as fixtures below a folder of the suite.
pub(crate) fn fixtures_of(tree: &Tree, folder: &str) -> Vec<Fixture> {
    tree.files.iter().map(|file| fixture_of(file, format!("{folder}/{}", file.path))).collect()
}

/// A file as a fixture.
pub(crate) fn fixture_of(file: &TreeFile, path: String) -> Fixture {
    Fixture { path, content: FixtureSource::of(file), mode: file.mode }
}

impl TaskDraft {
    /// The task in the format of a suite.
    pub(crate) fn node(&self) -> Node {
        let seconds = |value: f64| number(value);
        let Durations { lease, setup, agent, grade } = self.durations;
        let mut entries = vec![
            ("id", self.id.as_str().into()),
            ("instruction", text(&self.instruction)),
            ("max_turns", whole(self.max_turns.into())),
            ("lease_timeout_secs", seconds(lease)),
            ("setup_timeout_secs", seconds(setup)),
            ("step_timeout_secs", seconds(agent)),
            ("grade_timeout_secs", seconds(grade)),
            // This limit starts with the lease, so it covers the setup.
            ("attempt_timeout_secs", seconds(setup + agent)),
            ("env", Node::map(vec![("terminal", self.terminal())])),
        ];
        if !self.oracle.is_empty() {
            entries.push(("oracle", oracle(&self.oracle)));
        }
        Node::map(entries)
    }

    fn terminal(&self) -> Node {
        let mut entries = vec![
            ("sandbox", self.sandbox.into()),
            ("network", self.network.into()),
            ("image", self.image.node()),
        ];
        if let Some(files) = &self.files {
            entries.push(("files", files.as_str().into()));
        }
        if !self.setup.is_empty() {
            let commands = self.setup.iter().map(|command| text(command)).collect();
            entries.push(("setup", NodeValue::List(commands).into()));
        }
        if !self.vars.is_empty() {
            entries.push(("vars", variables(&self.vars)));
        }
        entries.extend([
            ("memory_mib", whole(self.limits.memory_mib)),
            ("disk_mib", whole(self.limits.disk_mib)),
            ("pids", whole(self.limits.pids)),
            ("cpu_percent", whole(self.limits.cpu_percent)),
            ("verifier", self.verifier.node()),
        ]);
        Node::map(entries)
    }
}

impl ImageDraft {
    fn node(&self) -> Node {
        let mut entries = match &self.source {
            ImageOrigin::Name(name) => vec![("name", name.as_str().into())],
            ImageOrigin::Rootfs(path) => vec![("rootfs", path.as_str().into())],
            ImageOrigin::Build { folder, dockerfile, timeout_secs } => vec![
                ("build", folder.as_str().into()),
                ("dockerfile", dockerfile.as_str().into()),
                ("build_timeout_secs", whole(*timeout_secs)),
            ],
        };
        if let Some(workdir) = &self.workdir {
            entries.push(("workdir", text(workdir)));
        }
        if let Some(user) = &self.user {
            entries.push(("user", text(user)));
        }
        Node::map(entries)
    }
}

impl VerifierDraft {
    fn node(&self) -> Node {
        let mut entries = vec![("files", self.files.as_str().into()), ("run", text(&self.run))];
        if !self.vars.is_empty() {
            entries.push(("vars", variables(&self.vars)));
        }
        if let Some(user) = &self.user {
            entries.push(("user", text(user)));
        }
        entries.extend([
            ("timeout_secs", number(self.timeout_secs)),
            ("network", self.network.into()),
            ("reward", self.reward.into()),
        ]);
        if let Some(apart) = &self.apart {
            entries.push(("apart", apart.node()));
        }
        Node::map(entries)
    }
}

impl ApartDraft {
    fn node(&self) -> Node {
        let mut entries = Vec::new();
        if let Some(image) = &self.image {
            entries.push(("image", image.node()));
        }
        let artifact = |artifact: &ArtifactDraft| {
            if artifact.exclude.is_empty() {
                return text(&artifact.source);
            }
            let exclude = artifact.exclude.iter().map(|pattern| text(pattern)).collect();
            Node::map(vec![("source", text(&artifact.source)), ("exclude", NodeValue::List(exclude).into())])
        };
        if !self.artifacts.is_empty() {
            entries
                .push(("artifacts", NodeValue::List(self.artifacts.iter().map(artifact).collect()).into()));
        }
        let collect = |(run, timeout): &(String, f64)| {
            Node::map(vec![("run", text(run)), ("timeout_secs", number(*timeout))])
        };
        if !self.collect.is_empty() {
            entries.push(("collect", NodeValue::List(self.collect.iter().map(collect).collect()).into()));
        }
        Node::map(entries)
    }
}

fn oracle(actions: &[Action]) -> Node {
    let commands: Option<Vec<Node>> = actions
        .iter()
        .map(|action| match action {
            Action::Run(command) => Some(text(command)),
            _ => None,
        })
        .collect();
    if let Some(commands) = commands {
        return Node::map(vec![("commands", NodeValue::List(commands).into())]);
    }
    let action = |action: &Action| match action {
        Action::Run(command) => Node::map(vec![("run", text(command))]),
        Action::Text(typed) => Node::map(vec![("text", text(typed))]),
        Action::Keys(keys) => Node::map(vec![("keys", text(keys))]),
        Action::Wait(seconds) => Node::map(vec![("wait", number(*seconds))]),
    };
    Node::map(vec![("actions", NodeValue::List(actions.iter().map(action).collect()).into())])
}

fn variables(variables: &[(String, String)]) -> Node {
    Node::map(variables.iter().map(|(name, value)| (name.as_str(), text(value))).collect())
}

/// A literal text: in a suite, every text is a template.
pub(crate) fn text(value: &str) -> Node {
    literal(value).as_str().into()
}

pub(crate) fn whole(value: u64) -> Node {
    NodeValue::Integer(i64::try_from(value).unwrap_or(i64::MAX)).into()
}

pub(crate) fn number(value: f64) -> Node {
    // Durations and sizes are far too small to lose digits here.
    if value.fract() == 0.0 && value.abs() < 1e15 {
        NodeValue::Integer(value as i64).into()
    } else {
        NodeValue::Number(value).into()
    }
}
