//! Runs tests of untrusted packages, each run in its own sandbox.
//!
//! I1. A run sees its package and the programs of this machine, has no network, and leaves nothing behind. I2. Results have the
//! order of the jobs, not of their ends.
//!
//! Errors: a sandbox cannot be started, or a command cannot be run. A signal ends this process; the spawner then ends every
//! sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Determinism, Fault, LogParser, NetworkPolicy, RunId, SandboxLimits};
use clawrl_import::{TestEnd, TestFile, TestJob, TestRun, TestRunner};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Announcer, BubblewrapBackend, BubblewrapConfig, CgroupHost, ExecSpec, PutFile, SandboxBackend,
    SandboxCommand, SandboxSpec, WorkspaceStart, probe_host, sweep_orphans,
};
use clawrl_swe::{TestResults, TestStatus};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::machine::{start_spawner, tell_of_sweep};
use crate::error::RuntimeError;
use crate::host::{facts, open_files};
use crate::progress::Progress;

/// Concurrent sandboxes for each core: while one waits for its interpreter to be read, another computes.
const AT_ONCE_PER_CPU: usize = 2;

/// Maximum bytes of a log.
const LOG_BYTES: usize = 16 << 20;

/// Limits of one run: an interpreter, a package, its tests.
const LIMITS: SandboxLimits = SandboxLimits { memory_mib: 512, disk_mib: 128, pids: 128, cpu_percent: 100 };

/// Sandboxes for tests.
pub struct TestSandboxes {
    runtime: Runtime,
    backend: Arc<BubblewrapBackend>,
    at_once: usize,
}

impl TestSandboxes {
    /// Probes the machine and starts the spawner. Call on the main thread, before anything starts a thread.
    ///
    /// # Errors
    /// [`RuntimeError::Unavailable`] if something is missing.
    pub fn start(progress: &dyn Progress) -> Result<Self, RuntimeError> {
        open_files::raise_limit();
        let cgroups = CgroupHost::detect();
        tell_of_sweep(&sweep_orphans(&cgroups), progress);
        let host = probe_host(cgroups).map_err(RuntimeError::from)?;
        let spawner: Spawner = start_spawner()?;
        let internal = |error: std::io::Error| RuntimeError::internal(format!("cannot start: {error}"));
        let runtime = Builder::new_multi_thread().enable_all().worker_threads(2).build().map_err(internal)?;
        let name = format!("tests-{}", std::process::id());
        let run =
            RunId::new(&name).ok_or_else(|| RuntimeError::internal(format!("`{name}` names no run")))?;
        let entered = runtime.enter();
        let client = SpawnerClient::attach(spawner).map_err(internal)?;
        let config = BubblewrapConfig { host, run, determinism: Determinism::default() };
        let backend = BubblewrapBackend::new(client, config).map_err(RuntimeError::from)?;
        drop(entered);
        let at_once = facts::cpus() as usize * AT_ONCE_PER_CPU;
        Ok(Self { runtime, backend: Arc::new(backend), at_once })
    }

    /// Ends all sandboxes and the spawner, and waits for them.
    pub fn end(self, progress: &dyn Progress) {
        for leftover in self.runtime.block_on(self.backend.shutdown()) {
            progress.warn(format_args!("left behind: {leftover}"));
        }
    }
}

impl TestRunner for TestSandboxes {
    fn run(&self, jobs: Vec<TestJob>) -> Result<Vec<TestRun>, String> {
        self.runtime.block_on(async {
            let mut waiting = jobs.into_iter().enumerate();
            let mut running = JoinSet::new();
            let mut runs: BTreeMap<usize, TestRun> = BTreeMap::new();
            loop {
                while running.len() < self.at_once
                    && let Some((at, job)) = waiting.next()
                {
                    let backend = Arc::clone(&self.backend);
                    running.spawn(async move { (at, run(backend.as_ref(), at, job).await) });
                }
                match running.join_next().await {
                    Some(Ok((at, Ok(run)))) => drop(runs.insert(at, run)),
                    // The other jobs end with the set.
                    Some(Ok((_, Err(fault)))) => return Err(fault.to_string()),
                    Some(Err(error)) => return Err(error.to_string()),
                    None => return Ok(runs.into_values().collect()),
                }
            }
        })
    }
}

async fn run(backend: &BubblewrapBackend, at: usize, job: TestJob) -> Result<TestRun, Fault> {
    let spec = SandboxSpec {
        label: format!("tests-{at}"),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: LIMITS,
        network: NetworkPolicy::None,
        image: None,
        workspace: WorkspaceStart::Empty,
        folders: Vec::new(),
        read_only: Vec::new(),
        inner_sandbox: false,
    };
    // The sandbox ends with its terminal, which is held until the tests are over.
    let started = backend.start(spec).await?;
    let sandbox = started.sandbox.as_ref();
    let file = |file: &TestFile| PutFile {
        path: file.path.clone(),
        mode: file.mode,
        content: Arc::clone(&file.content),
    };
    let changed = job.change.as_ref();
    let kept = job.files.iter().filter(|file| changed.is_none_or(|change| change.path != file.path));
    sandbox.put(kept.chain(changed).map(file).collect()).await?;
    let environment = BTreeMap::from([("PYTHONHASHSEED".to_owned(), job.hash_seed.to_string())]);
    let exec = ExecSpec {
        command: SandboxCommand {
            program: "bash".to_owned(),
            // Both streams are read together, because test results may go to either.
            arguments: vec!["-c".to_owned(), format!("exec 2>&1\n{}", job.command)],
            environment,
        },
        input: Vec::new(),
        output_cap: LOG_BYTES,
        deadline: Instant::now() + job.timeout,
        user: None,
    };
    let output = sandbox.exec(exec).await.map_err(Fault::from)?;
    if let Some(fault) = sandbox.lost().await {
        return Err(fault);
    }
    sandbox.kill().await?;
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    let tests = TestResults::read(parser(&job.parser), &log)
        .iter()
        .map(|(name, status)| (name.to_owned(), end(status)))
        .collect();
    Ok(TestRun { tests, exit_code: output.code, log })
}

fn parser(name: &str) -> LogParser {
    match name {
        "pytest" => LogParser::Pytest,
        "cargo" => LogParser::Cargo,
        "go" => LogParser::Go,
        "jest" => LogParser::Jest,
        _ => LogParser::Unittest,
    }
}

fn end(status: TestStatus) -> TestEnd {
    match status {
        TestStatus::Passed | TestStatus::ExpectedFailure => TestEnd::Passed,
        TestStatus::Skipped => TestEnd::Skipped,
        TestStatus::Failed | TestStatus::Error => TestEnd::Failed,
    }
}
