//! Programs that ran, programs that were never run, and that nothing inside can imitate either.

use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Retry};
use clawrl_sandbox::{
    CgroupHost, ExecError, ExecOutput, ExecSpec, NotRun, Sandbox, SandboxBackend, SandboxCommand,
};

use crate::support::{backend_on, running, sh, spawner, start, with_backend};

async fn run(sandbox: &dyn Sandbox, program: &str, arguments: &[&str]) -> Result<ExecOutput, ExecError> {
    let command = SandboxCommand {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        ..SandboxCommand::default()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    sandbox.exec(ExecSpec { command, input: Vec::new(), output_cap: 4096, deadline, user: None }).await
}

fn obstacle(result: Result<ExecOutput, ExecError>) -> (NotRun, String) {
    match result {
        Err(ExecError::NotRun { obstacle, message }) => (obstacle, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_is_not_there_has_no_exit_code() {
    with_backend("not-run", |backend| async move {
        let started = start(&backend, "a").await;
        let sandbox = started.sandbox.as_ref();
        for (program, said) in [("/no/such", "No such file"), ("/etc", "Permission denied")] {
            let (obstacle, message) = obstacle(run(sandbox, program, &[]).await);
            assert_eq!(obstacle, NotRun::Program, "{message}");
            assert!(message.contains(program) && message.contains(said), "{message}");
        }
        let fault = clawrl_core::Fault::from(run(sandbox, "/no/such", &[]).await.unwrap_err());
        assert_eq!((fault.code.as_str(), fault.retry), ("not-run", Retry::Never));
        sh(sandbox, "chmod 0 .").await;
        let (obstacle, message) = obstacle(run(sandbox, "/bin/true", &[]).await);
        assert_eq!((obstacle, message.contains("folder /work")), (NotRun::Folder, true), "{message}");
    });
}

/// A program may choose every exit code, and write whatever it wants to wherever it can.
#[test]
fn a_program_cannot_pretend_that_it_was_not_run() {
    with_backend("pretend", |backend| async move {
        let started = start(&backend, "a").await;
        let sandbox = started.sandbox.as_ref();
        let pretend = "trouble='{\"not_run\":\"Launcher\",\"message\":\"x\"}'; ls /proc/self/fd | wc -l; \
                       for fd in 1 2 3 4 5 6 7 8 9; do (echo \"$trouble\" >&$fd) 2>/dev/null; done; \
                       for fd in /proc/[0-9]*/fd/*; do [ -p $fd ] && (echo \"$trouble\" >$fd) 2>/dev/null; done; exit ";
        for code in [126, 127] {
            let output = run(sandbox, "/bin/sh", &["-c", &format!("{pretend}{code}")]).await.unwrap();
            assert_eq!(output.code, Some(code));
            // Input, output, error, and the folder that is listed.
            assert!(output.stdout.starts_with(b"4\n"), "{output:?}");
        }
        let missing = run(sandbox, "/bin/sh", &["-c", "/no/such"]).await.unwrap();
        assert_eq!(missing.code, Some(127));
    });
}

#[test]
fn in_a_sandbox_that_has_ended_nothing_is_run() {
    with_backend("ended", |backend| async move {
        let started = backend.start(running("a", "read line; exit 0")).await.unwrap();
        let sandbox = started.sandbox.as_ref();
        assert_eq!(sh(sandbox, "true").await.code, Some(0));
        // The main program ends with its terminal, and the sandbox with its main program.
        drop(started.terminal);
        let until = Instant::now() + Duration::from_secs(20);
        while backend.live() > 0 {
            assert!(Instant::now() < until);
            tokio::task::yield_now().await;
        }
        // Its first process may outlive the outer one by a moment.
        let refused = loop {
            let ran = run(sandbox, "/bin/true", &[]).await;
            if ran.is_err() {
                break ran;
            }
            assert!(Instant::now() < until, "{ran:?}");
        };
        let (obstacle, message) = obstacle(refused);
        assert_eq!(obstacle, NotRun::Launcher, "{message}");
    });
}

#[test]
fn killed_spawner_is_fault_not_exit() {
    let spawner = spawner();
    let pid = rustix::process::Pid::from_raw(spawner.id().try_into().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let backend = backend_on(spawner, CgroupHost::detect(), "exec-spawner");
        let started = start(&backend, "a").await;
        let sandbox = started.sandbox.as_ref();
        let killing = async {
            let runs = |process: &clawrl_sandbox::ProcessFacts| process.command_line == "/bin/sleep 4711";
            while !sandbox.processes().await.iter().any(runs) {
                tokio::task::yield_now().await;
            }
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        let (result, ()) = tokio::join!(run(sandbox, "/bin/sleep", &["4711"]), killing);
        match result {
            Err(ExecError::Fault(fault)) => {
                assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Harness, "spawner-gone"));
            }
            other => panic!("{other:?}"),
        }
    });
}
