//! The session on the terminal of a real sandbox: its queries to the kernel work there, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::CancelToken;
use clawrl_sandbox::{
    Announcer, BubblewrapBackend, DirectKiller, Nonce, Pty, SandboxBackend, SandboxCommand, SandboxSpec,
    ShellSession, StepEnd, StepLimits, StepNote, StepOutput, bash_arguments, rc_script, supervisor_script,
    terminal_environment,
};

use crate::shell_fixture::{LONG, NONCE, config, exited};
use crate::support::{as_normal_user_too, running, with_backend};

const START_FILE: &str = "/etc/test.bashrc";
const KEEPER: &str = "/etc/test.keeper";

async fn step(session: &mut ShellSession, command: &str, time: Duration) -> StepOutput {
    let cancel = CancelToken::new();
    session.run(command, StepLimits { deadline: Instant::now() + time, cancel: &cancel }).await.unwrap()
}

async fn steps(backend: BubblewrapBackend) {
    let nonce = Nonce::from_bytes(NONCE);
    let limits = running("shell", "").limits;
    let started = backend
        .start(SandboxSpec {
            main: SandboxCommand {
                program: "bash".to_owned(),
                arguments: bash_arguments(START_FILE),
                environment: terminal_environment().into_iter().collect(),
            },
            announced_by: Announcer::Script(KEEPER.to_owned()),
            support_files: vec![
                (START_FILE.to_owned(), rc_script(&nonce)),
                (KEEPER.to_owned(), supervisor_script(&nonce, &backend.announcement(&limits))),
            ],
            ..running("shell", "")
        })
        .await
        .unwrap();
    let cancel = CancelToken::new();
    let limits = StepLimits { deadline: Instant::now() + LONG, cancel: &cancel };
    let pty = Pty::from_master(started.terminal.master().unwrap()).unwrap();
    let mut session = ShellSession::start(pty, config(), Arc::new(DirectKiller), limits).await.unwrap();

    let output = step(&mut session, "echo hello; false", LONG).await;
    assert_eq!((output.text.as_str(), output.end), ("hello\n", exited(1)));
    // Four times the idle time: the sandbox's own /proc tells that it works.
    let output = step(&mut session, "sleep 0.6; echo done", LONG).await;
    assert_eq!((output.text.as_str(), output.end), ("done\n", exited(0)));
    let output = step(&mut session, "read line", LONG).await;
    assert_eq!(output.end, StepEnd::Running);
    assert!(output.duration < Duration::from_secs(10), "{output:?}");
    assert_eq!(step(&mut session, "something", LONG).await.end, exited(0));
    // A deadline kills a job that ignores the interrupt, with the sandbox's own process numbers.
    let stubborn = "sh -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'";
    let output = step(&mut session, stubborn, Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: false });
    let output = step(&mut session, "exec bash --norc", LONG).await;
    assert!(output.has(StepNote::MarksLost), "{output:?}");
    assert_eq!(step(&mut session, "echo again", LONG).await.end, exited(0));
    // The session sees from outside where the shell's standard error goes.
    assert_eq!(step(&mut session, "exec 2>err.log", LONG).await.end, exited(0));
    assert_eq!(step(&mut session, "false", LONG).await.end, exited(1));
    let output = step(&mut session, "set -e; false", LONG).await;
    assert_eq!(output.end, StepEnd::ShellReplaced { exit_code: 1 }, "{output:?}");
    assert_eq!(step(&mut session, "echo new", LONG).await.text, "new\n");
    assert_eq!(
        step(&mut session, "kill -KILL $$", LONG).await.end,
        StepEnd::ShellReplaced { exit_code: 137 }
    );
    let stubborn = "trap '' INT; while :; do :; done";
    let output = step(&mut session, stubborn, Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: true });
    assert!(output.has(StepNote::NewShell), "{output:?}");
    assert_eq!(step(&mut session, "sleep 100 & exit", LONG).await.end, StepEnd::ShellExited);
    started.sandbox.kill().await.unwrap();
}

#[test]
fn a_session_in_a_sandbox() {
    as_normal_user_too("shell_sandboxed::a_session_in_a_sandbox", || with_backend("shell", steps));
}
