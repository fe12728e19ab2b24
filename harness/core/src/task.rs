//! A task: one immutable row. A template's instance is a task.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Screenshots;
use crate::{
    ActionFormat, AnswerCheck, CallPattern, CustomSpec, ExpectedCall, GuiSpec, ImageSpec, PageCheck, SweSpec,
    TaskId, ToolCall, ToolcallSpec, VerifierSpec,
};

/// A task with everything resolved: no template text, no defaults left to apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Unique within the plan.
    pub id: TaskId,
    /// Name of the suite.
    pub suite: String,
    /// Id of the task row in the suite file; all instances of a template share it.
    pub family: String,
    /// What the policy is asked to do.
    pub instruction: String,
    /// The environment and its settings.
    pub env: EnvSpec,
    /// How success is established.
    pub checks: Vec<CheckSpec>,
    /// A program that grades, instead of checks or beside them: then the score is its score times theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierSpec>,
    /// From score to reward.
    pub reward: RewardMap,
    /// Actions that solve it, for `validate` and for demonstrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Script>,
    /// Plausible wrong action sequences, for the imperfect demonstrator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Script>,
    /// How replies are read.
    pub action_format: ActionFormat,
    /// Turns before the attempt is truncated.
    pub max_turns: u32,
    /// Time limits.
    pub timeouts: crate::Timeouts,
}

/// The part of a task that a policy may read: neither oracle nor checks, so that no policy can act on them.
///
/// Scripted policies play oracles; they take the tasks when they are built.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// Unique within the plan.
    pub id: TaskId,
    /// Task text for the policy.
    pub instruction: String,
    /// Format in which replies are parsed.
    pub action_format: ActionFormat,
    /// Time limits of the attempt.
    pub timeouts: crate::Timeouts,
}

/// What scripted policies play.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Script {
    /// Actions in order; each call is one turn.
    Calls(Vec<ToolCall>),
    /// A program that reads what is seen, and says what to do next: for tasks that nobody knows before they are shown.
    Solver(Solver),
}

/// A program that plays a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Solver {
    /// Solves pages of MiniWoB++, which it tells apart by the address of the first page.
    Miniwob,
    /// Clicks one of the elements that the first page shows, drawn by lot, and submits.
    RandomClick,
}

impl Script {
    /// What is known of it beforehand: of a solver, nothing.
    #[must_use]
    pub fn calls(&self) -> &[ToolCall] {
        match self {
            Self::Calls(calls) => calls,
            Self::Solver(_) => &[],
        }
    }
}

impl Solver {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Miniwob, Self::RandomClick];

    /// As suites and plans name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Miniwob => "miniwob",
            Self::RandomClick => "random-click",
        }
    }
}

/// What is asked where pages ask too: the instruction, the first page and what prepares it.
#[must_use]
pub fn asked_by_pages(instruction: &str, start: &str, prepare: &[String]) -> String {
    [instruction, start].into_iter().chain(prepare.iter().map(String::as_str)).collect::<Vec<_>>().join("\0")
}

impl TaskSpec {
    /// The part of it that policies may read.
    #[must_use]
    pub fn view(&self) -> TaskView {
        TaskView {
            id: self.id.clone(),
            instruction: self.instruction.clone(),
            action_format: self.action_format,
            timeouts: self.timeouts,
        }
    }

    /// By what a task is in one part or the other: what it asks of the policy.
    #[must_use]
    pub fn asked(&self) -> Cow<'_, str> {
        match &self.env {
            EnvSpec::Gui(gui) => Cow::Owned(asked_by_pages(&self.instruction, &gui.start, &gui.prepare)),
            _ => Cow::Borrowed(&self.instruction),
        }
    }

    /// The checks that ask a judge, with their places.
    pub fn rubrics(&self) -> impl Iterator<Item = (usize, &CheckSpec)> {
        self.checks.iter().enumerate().filter(|(_, spec)| matches!(spec.check, Check::Rubric { .. }))
    }
}

/// The environment of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EnvSpec {
    /// A shell on a pseudo-terminal.
    Terminal(TerminalSpec),
    /// A repository with an issue, and tests that decide.
    Swe(Box<SweSpec>),
    /// Pages in a browser.
    Gui(Box<GuiSpec>),
    /// Tools that are called with arguments.
    Toolcall(ToolcallSpec),
    /// A program or a server that somebody else wrote.
    Custom(CustomSpec),
}

impl EnvSpec {
    /// Name of the kind, as in suite files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Terminal(_) => "terminal",
            Self::Swe(_) => "swe",
            Self::Gui(_) => "gui",
            Self::Toolcall(_) => "toolcall",
            Self::Custom(custom) => custom.kind(),
        }
    }

    /// Whether every observation is a picture, so that whoever only reads misses some of it.
    #[must_use]
    pub fn shows_pictures(&self) -> bool {
        matches!(self, Self::Gui(spec) if spec.screenshots == Screenshots::Shown)
    }
}

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
    /// How long a silent program that waits for input is waited for before the step returns `running`.
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

/// What of a terminal is graded.
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
    /// Its own empty network namespace: not even loopback to the host.
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

/// Where a fixture's bytes come from.
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

/// A check with its place in the grade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckSpec {
    /// Shown in reports.
    pub label: String,
    /// Weight in the mean.
    pub weight: f64,
    /// What is checked.
    pub check: Check,
}

/// What a check looks at. Paths are relative to the workspace; symbolic links are never followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// The file's bytes are exactly these.
    FileEquals {
        /// Relative path.
        path: String,
        /// All of the content.
        expected: String,
    },
    /// The file contains this text.
    FileContains {
        /// Relative path.
        path: String,
        /// The text.
        text: String,
    },
    /// The file's text matches this regular expression somewhere.
    FileMatches {
        /// Relative path.
        path: String,
        /// In the syntax of the `regex` crate.
        regex: String,
    },
    /// Nothing is at this path.
    FileAbsent {
        /// Relative path.
        path: String,
    },
    /// The permission bits are exactly these.
    FileMode {
        /// Relative path.
        path: String,
        /// For example 0o644.
        mode: u32,
    },
    /// The owner, as seen inside the sandbox.
    FileOwner {
        /// Relative path.
        path: String,
        /// User id inside the sandbox.
        uid: u32,
    },
    /// Hash over names, kinds, modes' executable bits, contents and link targets of a folder.
    TreeHash {
        /// Relative path of a folder; `.` for the workspace.
        path: String,
        /// Hex SHA-256, as `clawrl validate` prints it.
        sha256: String,
    },
    /// A command run by `sh -c` in a fresh sandbox on a copy of the workspace.
    Command {
        /// The command.
        run: String,
        /// Expected exit code.
        exit_code: i32,
        /// Expected standard output, exactly.
        stdout_equals: Option<String>,
        /// Text that standard output contains.
        stdout_contains: Option<String>,
        /// Its time limit.
        timeout: Duration,
    },
    /// A live probe before anything is stopped: processes in the sandbox whose command line matches.
    Process {
        /// Over the command line, arguments joined by spaces.
        regex: String,
        /// Whether one must be there or none may be.
        running: bool,
    },
    /// A value inside a JSON file.
    JsonValue {
        /// Relative path.
        path: String,
        /// JSON pointer (RFC 6901).
        pointer: String,
        /// Expected value; numbers compare by value.
        equals: serde_json::Value,
    },
    /// What was submitted as answer.
    Answer(AnswerCheck),
    /// A command run by `sh -c` in a fresh sandbox on a copy of the workspace, with the answer as standard input.
    AnswerCommand {
        /// The command.
        run: String,
        /// Expected exit code.
        exit_code: i32,
        /// Its time limit.
        timeout: Duration,
    },
    /// A judge says that the answer meets a rubric. No answer meets any.
    Rubric {
        /// What the answer has to meet, in words.
        rubric: String,
        /// Votes to be cast; the strict majority decides.
        votes: u32,
    },
    /// The calls of the whole episode, `submit` left aside, against expected ones; each of these is found by another call.
    CallsMatch {
        /// What is expected.
        calls: Vec<ExpectedCall>,
        /// Whether the calls that are found stand in this order.
        ordered: bool,
        /// Whether there may be no other call, of any tool.
        exactly: bool,
    },
    /// How often a tool was called.
    Called {
        /// The calls that count.
        call: CallPattern,
        /// Fewest that pass.
        at_least: u32,
        /// Most that pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<u32>,
    },
    /// Calls in this order, others in between allowed. The score is the part of them that was found, from the first on.
    CalledInOrder {
        /// One after another.
        calls: Vec<CallPattern>,
    },
    /// Of a browser's pages, while they are still there.
    Page(PageCheck),
    /// What a store tool holds at the end.
    Stored {
        /// Name of the tool.
        tool: String,
        /// The key.
        key: String,
        /// Its value; `None` stands for no such key.
        equals: Option<String>,
    },
}

/// From score in [0, 1] to reward: `scale * score + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RewardMap {
    /// Factor.
    pub scale: f64,
    /// Summand.
    pub offset: f64,
}

impl Default for RewardMap {
    /// -1 to 1.
    fn default() -> Self {
        Self { scale: 2.0, offset: -1.0 }
    }
}

impl RewardMap {
    /// Applies the map.
    #[must_use]
    pub fn apply(self, score: f64) -> f64 {
        self.scale * score + self.offset
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(script: &Script, written: serde_json::Value) {
        assert_eq!(serde_json::to_value(script).unwrap(), written);
        assert_eq!(&serde_json::from_value::<Script>(written).unwrap(), script);
    }

    #[test]
    fn scripts_are_lists_as_they_always_were_and_solvers_are_names() {
        let call = ToolCall::new("run", json!({ "command": "ls" }));
        check(&Script::Calls(vec![call]), json!([{ "name": "run", "arguments": { "command": "ls" } }]));
        check(&Script::Calls(Vec::new()), json!([]));
        for solver in Solver::ALL {
            check(&Script::Solver(solver), json!(solver.name()));
        }
    }
}
