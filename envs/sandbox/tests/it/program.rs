//! Programs on pipes, in a sandbox and without isolation: their output, their end, their remains.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clawrl_core::{BoxFuture, Determinism, RunId};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    CgroupHost, ExecError, ExecSpec, LocalBackend, NotRun, Program, ProgramSpec, Sandbox, SandboxBackend,
    SandboxCommand,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::support::{
    as_normal_user_too, backend_on, running, sh, spawner, start, text, waiting, with_backend,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn command(program: &str, arguments: &[&str]) -> SandboxCommand {
    SandboxCommand {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        ..SandboxCommand::default()
    }
}

async fn open(sandbox: &dyn Sandbox, script: &str) -> Program {
    let command = command("/bin/sh", &["-c", script]);
    sandbox.open(ProgramSpec { command, user: None }).await.unwrap()
}

async fn say(program: &mut Program, line: &str) {
    program.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
}

/// The next line of its output.
async fn heard(program: &mut Program) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let byte = tokio::time::timeout(PATIENCE, program.output.read_u8()).await.unwrap().unwrap();
        line.push(byte);
    }
    String::from_utf8(line).unwrap()
}

/// How many processes have a command line with `word` in it.
async fn count(sandbox: &dyn Sandbox, word: &str) -> usize {
    sandbox.processes().await.iter().filter(|process| process.command_line.contains(word)).count()
}

async fn until_there_are(sandbox: &dyn Sandbox, number: usize, word: &str) {
    let until = Instant::now() + PATIENCE;
    while count(sandbox, word).await != number {
        assert!(Instant::now() < until, "{:?}", sandbox.processes().await);
        tokio::task::yield_now().await;
    }
}

type Case = for<'a> fn(&'a dyn Sandbox) -> BoxFuture<'a, ()>;

/// Runs a case in bubblewrap, as root and as a normal user, and without isolation.
fn in_each(name: &str, case: Case) {
    as_normal_user_too(&format!("program::{name}"), || {
        // As long as the name of a run may be.
        let name = &name[..name.len().min(40)];
        with_backend(name, |backend| async move {
            let started = start(&backend, "a").await;
            case(started.sandbox.as_ref()).await;
        });
        let spawner = spawner();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let run = RunId::new(&format!("test-{name}")).unwrap();
            let client = SpawnerClient::attach(spawner).unwrap();
            let backend = LocalBackend::new(client, &run, Determinism::default());
            let started = backend.start(waiting("a")).await.unwrap();
            case(started.sandbox.as_ref()).await;
            drop(started);
            assert_eq!(backend.shutdown().await, Vec::<String>::new());
        });
    });
}

#[test]
fn lines_go_in_and_come_out() {
    in_each("lines_go_in_and_come_out", |sandbox| {
        Box::pin(async move {
            let script = "while read line; do echo \"got $line\"; done; echo over >&2; exit 5";
            let mut program = open(sandbox, script).await;
            for number in 0..100 {
                say(&mut program, &format!("line {number}\n")).await;
                assert_eq!(heard(&mut program).await, format!("got line {number}\n"));
            }
            assert!(!program.handle.has_ended());
            program.input = None;
            assert_eq!(program.ended().await.unwrap(), Some(5));
            assert_eq!(program.ended().await.unwrap(), Some(5));
            let mut said = String::new();
            BufReader::new(&mut program.errors).read_line(&mut said).await.unwrap();
            assert_eq!(said, "over\n");
            // Nothing happens to a program that has ended.
            program.kill().await;
            assert_eq!(program.ended().await.unwrap(), Some(5));
            let mut signalled = open(sandbox, "kill -SEGV $$").await;
            assert_eq!(signalled.ended().await.unwrap(), Some(139));
        })
    });
}

#[test]
fn program_not_run_is_reported_by_its_end() {
    with_backend("open-not-run", |backend| async move {
        let started = backend.start(running("a", "read line; exit 0")).await.unwrap();
        let sandbox = started.sandbox.as_ref();
        let spec = |program: &str| ProgramSpec { command: command(program, &[]), user: None };
        for (path, said) in [("/no/such", "No such file"), ("/etc", "Permission denied")] {
            let mut program = sandbox.open(spec(path)).await.unwrap();
            for _ in 0..2 {
                match program.ended().await {
                    Err(ExecError::NotRun { obstacle: NotRun::Program, message }) => {
                        assert!(message.contains(path) && message.contains(said), "{message}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let user = ProgramSpec { user: Some("root".to_owned()), ..spec("/bin/true") };
        match sandbox.open(user).await {
            Err(ExecError::Fault(fault)) => assert_eq!(fault.code, "needs-container"),
            other => panic!("{other:?}"),
        }
        drop(started.terminal);
        // Its first process may outlive the outer one by a moment.
        let until = Instant::now() + PATIENCE;
        let ended = loop {
            let ended = match sandbox.open(spec("/bin/true")).await {
                Ok(mut program) => program.ended().await,
                Err(error) => Err(error),
            };
            if ended.is_err() {
                break ended;
            }
            assert!(Instant::now() < until, "{ended:?}");
        };
        assert!(matches!(ended, Err(ExecError::NotRun { obstacle: NotRun::Launcher, .. })), "{ended:?}");
    });
}

/// Children, orphans, sessions of their own, and signals that are ignored.
const STUBBORN: &str = "trap '' TERM INT HUP; setsid sleep 5001 & (setsid sleep 5002 &); \
                        (setsid sh -c 'sleep 5003 & wait' &); sleep 5004";

#[test]
fn i2_kill_ends_exactly_the_descendants() {
    in_each("i2_kill_ends_exactly_the_descendants", |sandbox| {
        Box::pin(async move {
            let mut neighbour = open(sandbox, "setsid sleep 6001 & exec cat").await;
            let mut program = open(sandbox, STUBBORN).await;
            // The script names them, too, in two command lines.
            for number in 5001..=5004 {
                let runs = format!("sleep {number}");
                let until = Instant::now() + PATIENCE;
                while !sandbox.processes().await.iter().any(|process| process.command_line == runs) {
                    assert!(Instant::now() < until, "{:?}", sandbox.processes().await);
                    tokio::task::yield_now().await;
                }
            }
            program.kill().await;
            assert_eq!(count(sandbox, "sleep 500").await, 0);
            assert_eq!(program.ended().await.unwrap(), None);
            program.kill().await;
            say(&mut neighbour, "alive\n").await;
            assert_eq!(heard(&mut neighbour).await, "alive\n");
            assert_eq!(count(sandbox, "sleep 6001").await, 1);
        })
    });
}

#[test]
fn i2_a_fork_bomb_ends_alone() {
    with_backend("open-bomb", |backend| async move {
        let mut spec = waiting("a");
        // Memory for the maximum number of processes: the first one must not be the kernel's victim.
        spec.limits.memory_mib = 1024;
        let started = backend.start(spec).await.unwrap();
        let sandbox = started.sandbox.as_ref();
        let mut neighbour = open(sandbox, "exec cat").await;
        let command = command("perl", &["-e", "fork while 1"]);
        let program = sandbox.open(ProgramSpec { command, user: None }).await.unwrap();
        let until = Instant::now() + PATIENCE;
        while count(sandbox, "fork while 1").await < 20 {
            assert!(Instant::now() < until);
            tokio::task::yield_now().await;
        }
        program.kill().await;
        assert_eq!(count(sandbox, "fork while 1").await, 0);
        say(&mut neighbour, "alive\n").await;
        assert_eq!(heard(&mut neighbour).await, "alive\n");
        assert_eq!(sh(sandbox, "true").await.code, Some(0));
    });
}

#[test]
fn i3_dropping_it_ends_it() {
    in_each("i3_dropping_it_ends_it", |sandbox| {
        Box::pin(async move {
            drop(open(sandbox, "setsid sleep 7001 & sleep 7001").await);
            let program = open(sandbox, "setsid sleep 7001 & sleep 7001").await;
            until_there_are(sandbox, 3, "sleep 7001").await;
            drop(program);
            until_there_are(sandbox, 0, "sleep 7001").await;
            // Dropped half-way, before and after it is on its way.
            for delay_us in [0, 100, 300, 1000, 2000, 4000] {
                let spec = ProgramSpec { command: command("sleep", &["7002"]), user: None };
                let _ = tokio::time::timeout(Duration::from_micros(delay_us), sandbox.open(spec)).await;
            }
            let marker = open(sandbox, "exec sleep 7003").await;
            until_there_are(sandbox, 1, "sleep 7003").await;
            until_there_are(sandbox, 0, "sleep 7002").await;
            drop(marker);
        })
    });
}

#[test]
fn dropped_or_late_run_ends_its_descendants() {
    in_each("dropped_or_late_run_ends_its_descendants", |sandbox| {
        Box::pin(async move {
            let spec = |limit: Duration| ExecSpec {
                command: command("/bin/sh", &["-c", "echo begun; (setsid sleep 8001 &); sleep 8001"]),
                input: Vec::new(),
                output_cap: 100,
                deadline: Instant::now() + limit,
                user: None,
            };
            let late = sandbox.exec(spec(Duration::from_secs(2))).await.unwrap();
            assert_eq!((late.code, text(&late).as_str()), (None, "begun\n"));
            assert_eq!(count(sandbox, "sleep 8001").await, 0);
            tokio::select! {
                output = sandbox.exec(spec(PATIENCE)) => panic!("{output:?}"),
                () = until_there_are(sandbox, 3, "sleep 8001") => {}
            }
            until_there_are(sandbox, 0, "sleep 8001").await;
        })
    });
}

#[test]
fn an_interrupt_reaches_the_program_alone() {
    in_each("an_interrupt_reaches_the_program_alone", |sandbox| {
        Box::pin(async move {
            // A shell's children ignore interrupts, unless they take them up again.
            let script = "trap 'echo caught' INT; \
                          perl -e '$SIG{INT} = \"DEFAULT\"; $| = 1; print \"ready\\n\"; sleep 9001' & wait; wait; exit 3";
            let mut program = open(sandbox, script).await;
            assert_eq!(heard(&mut program).await, "ready\n");
            program.interrupt().await;
            assert_eq!(heard(&mut program).await, "caught\n");
            // The shell and its child.
            assert_eq!(count(sandbox, "sleep 9001").await, 2);
            program.kill().await;
            assert_eq!(count(sandbox, "sleep 9001").await, 0);
            let mut plain = open(sandbox, "echo ready; exec sleep 9002").await;
            assert_eq!(heard(&mut plain).await, "ready\n");
            plain.interrupt().await;
            let ended = tokio::time::timeout(PATIENCE, plain.ended()).await;
            assert_eq!(ended.expect("an interrupt that was lost").unwrap(), Some(130));
        })
    });
}

/// As a script starts a harness in the background: then interrupts are ignored, and a shell never takes them up again.
#[test]
fn interrupt_works_if_harness_ignores_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let deaf = folder.path().join("deaf");
    let real = env!("CARGO_BIN_EXE_clawrl-sbx");
    std::fs::write(&deaf, format!("#!/bin/sh\ntrap '' INT\nexec '{real}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&deaf, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spawner = Spawner::start_program(&deaf).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let backend = backend_on(spawner, CgroupHost::detect(), "deaf");
        let started = start(&backend, "a").await;
        let mut program =
            open(started.sandbox.as_ref(), "trap 'exit 4' INT; echo ready; sleep 1000 & wait").await;
        assert_eq!(heard(&mut program).await, "ready\n");
        program.interrupt().await;
        assert_eq!(program.ended().await.unwrap(), Some(4));
        drop(started);
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}

#[test]
fn many_at_once_leave_nothing_open() {
    let spawner = spawner();
    let of_spawner = PathBuf::from(format!("/proc/{}/fd", spawner.id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let backend = backend_on(spawner, CgroupHost::detect(), "open-many");
        // One process from its start on.
        let mut spec = running("a", "exec sleep infinity");
        // Launchers count, too.
        (spec.limits.pids, spec.limits.memory_mib) = (256, 1024);
        let started = backend.start(spec).await.unwrap();
        let sandbox = started.sandbox.as_ref();
        let (ours, theirs) = (pipes("/proc/self/fd".into()), pipes(of_spawner.clone()));
        let before = sandbox.processes().await.len();
        let mut programs = Vec::new();
        for number in 0..64 {
            let mut program = open(sandbox, "exec cat").await;
            say(&mut program, &format!("{number}\n")).await;
            programs.push(program);
        }
        for (number, program) in programs.iter_mut().enumerate() {
            assert_eq!(heard(program).await, format!("{number}\n"));
        }
        // Each has three pipes, and one for its launcher's trouble.
        assert!(pipes("/proc/self/fd".into()).difference(&ours).count() >= 4 * 64);
        for (number, mut program) in programs.into_iter().enumerate() {
            if number % 2 == 0 {
                program.input = None;
                assert_eq!(program.ended().await.unwrap(), Some(0));
            } else {
                program.kill().await;
            }
        }
        assert_eq!(pipes("/proc/self/fd".into()), ours);
        assert_eq!(pipes(of_spawner), theirs);
        assert_eq!(sandbox.processes().await.len(), before, "{:?}", sandbox.processes().await);
        drop(started);
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}

/// The pipes that a process has open.
fn pipes(descriptors: PathBuf) -> BTreeSet<PathBuf> {
    let links = std::fs::read_dir(descriptors).unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("pipe:")).collect()
}
