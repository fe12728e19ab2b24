//! Programs beside the main one, on pipes.

use std::time::{Duration, Instant};

use clawrl_sandbox::{Program, ProgramSpec, Sandbox, SandboxCommand, available};
use tokio::io::AsyncReadExt as _;

use crate::engine::{here_and_elsewhere, sh, start, text};

async fn open(sandbox: &dyn Sandbox, script: &str) -> Program {
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let command = SandboxCommand { program: "bash".to_owned(), arguments, ..SandboxCommand::default() };
    sandbox.open(ProgramSpec { command, user: None }).await.unwrap()
}

here_and_elsewhere!(a_program_that_nobody_holds_any_more_ends, async |backend, _| {
    let started = start(&backend).await;
    let sandbox = started.sandbox.as_ref();
    let idle = sandbox.processes().await.len();
    let mut program = open(sandbox, "echo begun; sleep 1000 & wait").await;
    let mut begun = [0; 6];
    program.output.read_exact(&mut begun).await.unwrap();
    assert!(sandbox.processes().await.len() > idle);
    drop(program);
    let until = Instant::now() + Duration::from_secs(20);
    while sandbox.processes().await.len() > idle {
        assert!(Instant::now() < until, "{:?}", sandbox.processes().await);
    }
});

here_and_elsewhere!(what_was_written_before_is_here_before, async |backend, _| {
    let started = start(&backend).await;
    let sandbox = started.sandbox.as_ref();
    for _ in 0..30 {
        let mut program = open(sandbox, "printf errors >&2; printf output; read").await;
        let mut output = [0; 6];
        program.output.read_exact(&mut output).await.unwrap();
        assert_eq!((&output, available(&program.errors, 100)), (b"output", b"errors".to_vec()));
    }
    // More than a pipe holds, and its end at once.
    let mut program = open(sandbox, "head -c 300000 /dev/zero; exit 3").await;
    let mut all = Vec::new();
    let ended = async {
        let code = program.handle.ended().await;
        (code.unwrap(), Instant::now())
    };
    let read = async {
        program.output.read_to_end(&mut all).await.unwrap();
    };
    let ((code, _), ()) = tokio::join!(ended, read);
    assert_eq!((code, all.len()), (Some(3), 300_000));
});

mod slow {
    use super::*;

    here_and_elsewhere!(programs_whose_output_nobody_reads_hold_up_no_other, async |backend, _| {
        // Few in each, within its limit of processes.
        let all =
            [start(&backend).await, start(&backend).await, start(&backend).await, start(&backend).await];
        let mut talkers = Vec::new();
        for started in all.iter().cycle().take(20) {
            let mut program = open(started.sandbox.as_ref(), "while :; do echo something; done").await;
            let mut first = [0; 10];
            program.output.read_exact(&mut first).await.unwrap();
            talkers.push(program);
        }
        for started in all.iter().cycle().take(20) {
            assert_eq!(text(&sh(started.sandbox.as_ref(), "echo still here").await), "still here\n");
        }
        for program in &talkers {
            program.kill().await;
        }
    });
}
