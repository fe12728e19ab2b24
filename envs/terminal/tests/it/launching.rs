//! Commands of checks and verifiers that were never run: faults, whatever their exit codes would be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clawrl_core::{
    Boundary, BoxFuture, Check, Determinism, EnvProvider, Fault, Grade, Retry, RunId, SandboxKind,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, ExecError, ExecOutput, ExecSpec, ExposedFolder,
    ProcessFacts, Program, ProgramSpec, PutFile, SafeDir, SafeReadError, Sandbox, SandboxBackend,
    SandboxSpec, StartedSandbox, WarmMarks, probe_host,
};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use clawrl_testkit::{ready, small_terminal, step_ctx, terminal_task};

/// Failures in the sandboxes of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The program is not there.
    NoProgram,
    /// The sandbox ends before the program is started.
    Ended,
    /// The engine later reports that the sandbox was ended from outside.
    Lost,
    /// The spawner is killed while the program runs.
    SpawnerKilled,
}

/// Bubblewrap with that trouble.
struct Troubled {
    inner: BubblewrapBackend,
    trouble: Trouble,
    spawner: u32,
}

struct TroubledSandbox {
    inner: Box<dyn Sandbox>,
    trouble: Trouble,
    spawner: u32,
}

impl SandboxBackend for Troubled {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        let of_a_check = spec.label.ends_with("-check");
        Box::pin(async move {
            let StartedSandbox { sandbox, terminal } = self.inner.start(spec).await?;
            if !of_a_check {
                return Ok(StartedSandbox { sandbox, terminal });
            }
            let (trouble, spawner) = (self.trouble, self.spawner);
            Ok(StartedSandbox {
                sandbox: Box::new(TroubledSandbox { inner: sandbox, trouble, spawner }),
                terminal,
            })
        })
    }

    fn live(&self) -> u32 {
        self.inner.live()
    }

    fn peak(&self) -> u32 {
        self.inner.peak()
    }

    fn shutdown(&self) -> BoxFuture<'_, Vec<String>> {
        self.inner.shutdown()
    }
}

impl Sandbox for TroubledSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        self.inner.put(files)
    }

    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        self.inner.workspace()
    }

    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>> {
        self.inner.open(spec)
    }

    fn exec(&self, mut spec: ExecSpec) -> BoxFuture<'_, Result<ExecOutput, ExecError>> {
        Box::pin(async move {
            match self.trouble {
                Trouble::None | Trouble::Lost => {}
                Trouble::NoProgram => spec.command.program = "/no/such".to_owned(),
                Trouble::Ended => self.inner.kill().await?,
                Trouble::SpawnerKilled => {
                    let killing = async {
                        while self.inner.processes().await.len() < 2 {
                            tokio::task::yield_now().await;
                        }
                        let pid = rustix::process::Pid::from_raw(self.spawner.try_into().unwrap()).unwrap();
                        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                    };
                    spec.command.arguments = vec!["-c".to_owned(), "sleep 4711; exit 0".to_owned()];
                    return tokio::join!(self.inner.exec(spec), killing).0;
                }
            }
            self.inner.exec(spec).await
        })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        self.inner.processes()
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        self.inner.kill_processes(victims)
    }

    fn identity(&self) -> (u32, u32) {
        self.inner.identity()
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.inner.kill()
    }

    fn exposed_folders(&self) -> BoxFuture<'_, Vec<ExposedFolder>> {
        self.inner.exposed_folders()
    }

    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        let lost = self.trouble == Trouble::Lost;
        Box::pin(async move {
            lost.then(|| Fault::transient(Boundary::Env, "container-lost", "somebody ended it"))
        })
    }
}

/// Grades a command check whose sandbox has that failure.
fn graded(trouble: Trouble, command: &str, exit_code: i32) -> Result<Grade, Fault> {
    let started = Spawner::start().unwrap();
    let spawner = started.id();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let check = Check::Command {
        run: command.to_owned(),
        exit_code,
        stdout_equals: None,
        stdout_contains: None,
        timeout: Duration::from_secs(20),
    };
    let graded = Mutex::new(None);
    runtime.block_on(async {
        let config = BubblewrapConfig {
            host: probe_host(CgroupHost::detect()).unwrap(),
            run: RunId::new("test-launching").unwrap(),
            determinism: Determinism::default(),
        };
        let inner = BubblewrapBackend::new(SpawnerClient::attach(started).unwrap(), config).unwrap();
        let backend: Arc<dyn SandboxBackend> = Arc::new(Troubled { inner, trouble, spawner });
        let provider = TerminalProvider::new(TerminalConfig {
            backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
            marks: WarmMarks { low: 0, high: 0 },
            expected: vec![(small_terminal(), u32::MAX)],
            determinism: Determinism::default(),
            cast_bytes: 1024,
        });
        let mut env = ready(&provider, &terminal_task(small_terminal(), vec![check])).await;
        *graded.lock().unwrap() = Some(env.grade(step_ctx(9)).await);
        env.close().await;
        let left = provider.shutdown().await.leftovers;
        assert!(left.is_empty() || trouble == Trouble::SpawnerKilled, "{left:?}");
    });
    graded.into_inner().unwrap().unwrap()
}

#[test]
fn a_command_that_was_not_run_is_a_fault() {
    let check = |trouble: Trouble, exit_code: i32, expected: (Boundary, &str, Retry)| {
        let fault = graded(trouble, "true", exit_code).unwrap_err();
        assert_eq!((fault.boundary, fault.code.as_str(), fault.retry), expected, "{trouble:?}: {fault}");
    };
    // Not even a task that expects such an exit code is content.
    for exit_code in [0, 126, 127] {
        check(Trouble::NoProgram, exit_code, (Boundary::Grader, "not-run", Retry::Never));
    }
    check(Trouble::Ended, 0, (Boundary::Grader, "launch-failed", Retry::Sound));
    check(Trouble::Lost, 0, (Boundary::Grader, "container-lost", Retry::Sound));
    check(Trouble::SpawnerKilled, 0, (Boundary::Grader, "spawner-gone", Retry::Never));
}

#[test]
fn command_error_output_counts_as_failure() {
    let check = |command: &str, code: i32, word: &str| {
        let grade = graded(Trouble::None, command, 0).unwrap();
        let message = &grade.checks[0].message;
        assert!(!grade.passed && message.contains(&format!("found {code} ")), "{message}");
        assert!(message.contains(word), "{message}");
        assert!(graded(Trouble::None, command, code).unwrap().passed, "{command}");
    };
    check("no-such-program", 127, "was not found");
    check("/etc/passwd", 126, "cannot be run");
    check("echo 'clawrl-sbx: the sandbox is gone' >&2; exit 126", 126, "cannot be run");
}
