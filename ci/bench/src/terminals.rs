//! Sandboxed terminals, set up as a run sets them up.
//!
//! T1. All sides run in sandboxes of the same backend with the same limits. T2. A benchmark that leaves processes or files
//! behind fails.

mod shells;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    ActionFormat, AttemptId, CancelToken, Determinism, Env, EnvProvider, EnvSpec, Epoch, LeaseRequest,
    MemoryBlobs, RewardMap, RunId, SandboxKind, SlotId, StepCtx, TaskId, TaskSpec, TerminalSpec, Timeouts,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Announcer, BubblewrapBackend, BubblewrapConfig, CgroupHost, Nonce, SandboxBackend, SandboxCommand,
    SandboxSpec, WarmMarks, WorkspaceStart, announcement, bash_arguments, probe_host, supervisor_script,
    terminal_environment,
};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use tokio::runtime::Builder;

use crate::Failure;
pub(crate) use shells::{BareShell, EnvShell, SessionShell, Shell, read_until};

/// A lease, a reset or a step that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// Size of a session's recording in `clawrl run`.
const CAST_BYTES: usize = 256 * 1024;

/// Path of the shell's start file inside the sandbox.
const START_FILE: &str = "/etc/bench.bashrc";
const KEEPER: &str = "/etc/bench.keeper";

/// Everything that starts sandboxes, by layer. Clones share it.
#[derive(Clone)]
pub(crate) struct Terminals {
    pub(crate) backend: BubblewrapBackend,
    provider: Arc<TerminalProvider>,
}

/// Runs `work` with its own spawner and runtime, and ends both.
pub(crate) fn with_terminals<T>(
    work: impl AsyncFnOnce(&Terminals) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Before any runtime: death signals follow the thread that starts the spawner.
    let spawner = Spawner::start()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = BubblewrapConfig {
            host: probe_host(CgroupHost::detect())?,
            run: RunId::new("bench-terminal-step").ok_or("a run's name has letters and dashes only")?,
            determinism: Determinism::default(),
        };
        let backend = BubblewrapBackend::new(SpawnerClient::attach(spawner)?, config)?;
        let shared: Arc<dyn SandboxBackend> = Arc::new(backend.clone());
        let provider = Arc::new(TerminalProvider::new(TerminalConfig {
            backends: HashMap::from([(SandboxKind::Bubblewrap, shared)]),
            // No sandbox is created in the background while something is timed.
            marks: WarmMarks { low: 0, high: 0 },
            expected: vec![(TerminalSpec::default(), u32::MAX)],
            determinism: Determinism::default(),
            cast_bytes: CAST_BYTES,
        }));
        let terminals = Terminals { backend, provider };
        let done = work(&terminals).await;
        let left = terminals.provider.shutdown().await.leftovers;
        match (done, left.is_empty()) {
            (Ok(_), false) => Err(format!("left behind: {}", left.join("; ")).into()),
            (done, _) => done,
        }
    })
}

/// A task without files and checks.
pub(crate) fn task() -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        id: TaskId("bench/terminal".to_owned()),
        suite: "bench".to_owned(),
        family: "terminal".to_owned(),
        instruction: "Say hello.".to_owned(),
        env: EnvSpec::Terminal(TerminalSpec::default()),
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

impl Terminals {
    /// An environment before its reset.
    pub(crate) async fn lease(&self, task: &Arc<TaskSpec>) -> Result<Box<dyn Env>, Failure> {
        let request = LeaseRequest {
            task: Arc::clone(task),
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            epoch: Epoch(1),
            seed: 1,
            deadline: Instant::now() + LIMIT,
            cancel: CancelToken::new(),
            blobs: Arc::new(MemoryBlobs::default()),
        };
        Ok(self.provider.lease(request).await?)
    }
}

fn ctx(seq: u32) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + LIMIT, cancel: CancelToken::new() }
}

/// A sandbox with an interactive bash that reads `start_file`, as a provider requests it from its backend.
fn bash_sandbox(nonce: &Nonce, start_file: String) -> SandboxSpec {
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
