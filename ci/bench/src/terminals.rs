//! Sandboxed terminals for the areas that measure them, set up as a run sets them up.
//!
//! T1. Whatever is compared stands in sandboxes of the same backend with the same limits. T2. An area that leaves
//! something of them behind fails.

mod shells;

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    ActionFormat, AttemptId, CancelToken, Determinism, Env, EnvProvider, EnvSpec, Epoch, FixtureContent,
    FixtureFile, LeaseRequest, MemoryBlobs, RewardMap, RunId, SandboxKind, SlotId, StepCtx, TaskId, TaskSpec,
    TerminalSpec, Timeouts,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Announcer, BubblewrapBackend, BubblewrapConfig, CgroupHost, Nonce, SandboxBackend, SandboxCommand,
    SandboxSpec, WarmMarks, WorkspaceStart, announcement, bash_arguments, probe_host, supervisor_script,
    terminal_environment,
};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use tokio::runtime::Builder;

pub(crate) use shells::{BareShell, EnvShell, SessionShell, Shell, read_until};

/// Why a measurement came to nothing.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A lease, a reset or a step that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// What `clawrl run` keeps of a session's recording.
const CAST_BYTES: usize = 256 * 1024;

/// Where the start file of a shell that an area starts by itself is, inside.
const START_FILE: &str = "/etc/bench.bashrc";
const KEEPER: &str = "/etc/bench.keeper";

/// The file that a task lays into its workspace.
pub(crate) const FIXTURE: (&str, &str) = ("task.txt", "the workspace is usable\n");

/// Everything that starts sandboxes, by layer. Clones share it.
#[derive(Clone)]
pub(crate) struct Terminals {
    pub(crate) client: SpawnerClient,
    pub(crate) backend: BubblewrapBackend,
    pub(crate) provider: Arc<TerminalProvider>,
}

/// The run's name in the labels of all that an area starts.
pub(crate) fn run_name(area: &str) -> String {
    format!("bench-{area}")
}

/// Runs `work` with a spawner and a runtime of its own, and ends both.
pub(crate) fn with_terminals<T>(
    area: &str,
    work: impl AsyncFnOnce(&Terminals) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_backend(area, async |client, backend| {
        let (client, backend) = (client.clone(), backend.clone());
        let shared: Arc<dyn SandboxBackend> = Arc::new(backend.clone());
        let provider = Arc::new(TerminalProvider::new(TerminalConfig {
            backends: HashMap::from([(SandboxKind::Bubblewrap, shared)]),
            // Nothing is made while something else is timed.
            marks: WarmMarks { low: 0, high: 0 },
            expected: vec![(TerminalSpec::default(), u32::MAX)],
            determinism: Determinism::default(),
            cast_bytes: CAST_BYTES,
        }));
        let terminals = Terminals { client, backend, provider };
        let done = work(&terminals).await;
        let left = terminals.provider.shutdown().await.leftovers;
        match (done, left.is_empty()) {
            (Ok(_), false) => Err(format!("left behind: {}", left.join("; ")).into()),
            (done, _) => done,
        }
    })
}

/// Runs `work` with what starts sandboxes, and a runtime of its own, and ends both.
pub(crate) fn with_backend<T>(
    area: &str,
    work: impl AsyncFnOnce(&SpawnerClient, &BubblewrapBackend) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Before any runtime: death signals follow the thread that starts it.
    let spawner = Spawner::start()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = SpawnerClient::attach(spawner)?;
        let config = BubblewrapConfig {
            host: probe_host(CgroupHost::detect())?,
            run: RunId::new(&run_name(area)).ok_or("an area is named by letters and dashes")?,
            determinism: Determinism::default(),
        };
        let backend = BubblewrapBackend::new(client.clone(), config)?;
        work(&client, &backend).await
    })
}

/// A task without checks; with [`FIXTURE`] in its workspace if asked for.
pub(crate) fn task(fixtures: Fixtures) -> Arc<TaskSpec> {
    let mut terminal = TerminalSpec::default();
    if fixtures == Fixtures::OneFile {
        let content = FixtureContent::Inline(FIXTURE.1.to_owned());
        terminal.files.push(FixtureFile { path: FIXTURE.0.to_owned(), mode: 0o644, content });
    }
    task_of("terminal", EnvSpec::Terminal(terminal))
}

/// A task without checks.
pub(crate) fn task_of(family: &str, env: EnvSpec) -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        id: TaskId(format!("bench/{family}")),
        suite: "bench".to_owned(),
        family: family.to_owned(),
        instruction: "Say hello.".to_owned(),
        env,
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 1,
        timeouts: Timeouts::default(),
    })
}

/// What a task lays into its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fixtures {
    None,
    OneFile,
}

impl Terminals {
    /// A terminal, warm if there is one, before its reset.
    pub(crate) async fn lease(&self, task: &Arc<TaskSpec>) -> Result<Box<dyn Env>, Failure> {
        Ok(self.provider.lease(lease_of(task)).await?)
    }
}

/// Asks for an environment of this task.
pub(crate) fn lease_of(task: &Arc<TaskSpec>) -> LeaseRequest {
    LeaseRequest {
        task: Arc::clone(task),
        attempt: AttemptId { slot: SlotId(0), number: 0 },
        epoch: Epoch(1),
        seed: 1,
        deadline: Instant::now() + LIMIT,
        cancel: CancelToken::new(),
        blobs: Arc::new(MemoryBlobs::default()),
    }
}

pub(crate) fn ctx(seq: u32) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + LIMIT, cancel: CancelToken::new() }
}

/// A sandbox with an interactive bash that reads `start_file`: what a provider asks of its backend.
pub(crate) fn bash_sandbox(nonce: &Nonce, start_file: String) -> SandboxSpec {
    let main = SandboxCommand {
        program: "bash".to_owned(),
        arguments: bash_arguments(START_FILE),
        environment: terminal_environment().into_iter().collect(),
    };
    let keeper = supervisor_script(nonce, &announcement(&TerminalSpec::default().limits));
    let support_files = vec![(START_FILE.to_owned(), start_file), (KEEPER.to_owned(), keeper)];
    SandboxSpec { announced_by: Announcer::Script(KEEPER.to_owned()), support_files, ..sandbox(main) }
}

/// A sandbox with this main program.
pub(crate) fn sandbox(main: SandboxCommand) -> SandboxSpec {
    let TerminalSpec { size, limits, network, .. } = TerminalSpec::default();
    SandboxSpec {
        label: "bench".to_owned(),
        main,
        announced_by: Announcer::Wrapper,
        size,
        support_files: Vec::new(),
        limits,
        network,
        image: None,
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        read_only: Vec::new(),
        inner_sandbox: false,
    }
}
