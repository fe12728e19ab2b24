//! Features of a container besides its terminal.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, Retry};
use clawrl_sandbox::{
    ExecError, NotRun, ProgramSpec, PutFile, SandboxBackend, SandboxCommand, SandboxFolder, WorkspaceStart,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::engine::{containers, here_and_elsewhere, sh, sh_as, start, text, waiting};

fn file(path: &str, content: &str) -> PutFile {
    PutFile { path: path.to_owned(), mode: 0o644, content: Arc::from(content.as_bytes()) }
}

here_and_elsewhere!(
    files_stay_readable_until_nobody_looks_and_then_the_container_goes,
    |backend, socket| async move {
        let started = start(&backend).await;
        started.sandbox.put(vec![file("sub/put.txt", "put")]).await.unwrap();
        assert_eq!(text(&sh(started.sandbox.as_ref(), "cat sub/put.txt; echo mine > made").await), "put");
        let workspace = started.sandbox.workspace().await.unwrap().unwrap();
        started.sandbox.kill().await.unwrap();
        started.sandbox.kill().await.unwrap();
        assert_eq!(backend.live(), 0);
        assert!(started.sandbox.processes().await.is_empty());
        drop(started);
        // Time enough for a removal that did not wait for us.
        let second = start(&backend).await;
        assert_eq!(workspace.read_file("made", 100).unwrap(), b"mine\n");
        assert_eq!(workspace.read_file("in-image.txt", 100).unwrap(), b"from the image\n");
        drop((workspace, second));
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while containers(&socket).await > 0 {
            assert!(std::time::Instant::now() < until);
        }
    }
);

here_and_elsewhere!(a_verifier_finds_its_own_files_after_the_agent_is_halted, |backend, _| async move {
    let mut spec = waiting();
    spec.folders = vec![SandboxFolder { path: "/logs/agent".to_owned(), files: None }];
    let started = backend.start(spec).await.unwrap();
    let sandbox = started.sandbox.as_ref();
    let trap = "touch /logs/agent/log; mkdir /tests; echo 'exit 0' > /tests/test.sh; chmod -w /tests; \
                    rm -rf /logs; ln -s /etc /logs; (while :; do echo 1 > /tests/test.sh; done &) >/dev/null 2>&1";
    assert_eq!(text(&sh(sandbox, trap).await), "");
    assert!(!sandbox.processes().await.is_empty());
    assert!(sandbox.verifies_in_place());
    sandbox.halt().await.unwrap();
    assert_eq!(sandbox.processes().await, Vec::new());
    sandbox
        .replace_folder(
            "/tests".to_owned(),
            vec![file("test.sh", "id -u; echo 0.5 > /logs/verifier/reward.txt")],
        )
        .await
        .unwrap();
    sandbox.replace_folder("/logs/verifier".to_owned(), Vec::new()).await.unwrap();
    let ran = sh_as(
        sandbox,
        Some("agent"),
        "bash /tests/test.sh; echo x > /tests/test.sh",
        Duration::from_secs(20),
    )
    .await;
    assert_eq!(text(&ran), "1000\n/bin/bash: line 1: /tests/test.sh: Permission denied\n");
    sandbox.halt().await.unwrap();
    let read = |path: &str| sandbox.read(path.to_owned(), 100);
    assert_eq!(read("/logs/verifier/reward.txt").await.unwrap().unwrap(), b"0.5\n");
    assert_eq!(read("/logs/verifier/reward.json").await.unwrap(), None);
    assert_eq!(sandbox.lost().await, None);
});

here_and_elsewhere!(
    a_program_on_pipes_lives_until_it_is_killed_and_its_neighbours_go_on,
    |backend, _| async move {
        let started = start(&backend).await;
        let sandbox = started.sandbox.as_ref();
        let open = |user: Option<&str>, program: &str, script: &str| {
            let command = SandboxCommand {
                program: program.to_owned(),
                arguments: vec!["-c".to_owned(), script.to_owned()],
                ..SandboxCommand::default()
            };
            sandbox.open(ProgramSpec { command, user: user.map(str::to_owned) })
        };
        let mut neighbour = open(None, "/bin/bash", "exec cat").await.unwrap();
        let script = "trap '' TERM; (sleep 79 &); sleep 79 & id -u; exec cat";
        let mut program = open(Some("agent"), "/bin/bash", script).await.unwrap();
        for (program, line) in [(&mut neighbour, "one\n"), (&mut program, "two\n")] {
            program.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
        }
        let mut said = [0; 9];
        program.output.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"1000\ntwo\n");
        program.kill().await;
        assert_eq!(program.ended().await.unwrap(), None);
        let left = sandbox.processes().await;
        assert!(left.iter().all(|process| !process.command_line.contains("sleep 79")), "{left:?}");
        neighbour.output.read_exact(&mut said[..4]).await.unwrap();
        assert_eq!(&said[..4], b"one\n");
        neighbour.input = None;
        assert_eq!(neighbour.ended().await.unwrap(), Some(0));
        let mut missing = open(None, "/no/such", "").await.unwrap();
        match missing.ended().await {
            Err(ExecError::NotRun { obstacle: NotRun::Program, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(sandbox.lost().await, None);
    }
);

here_and_elsewhere!(limits_and_wishes_that_cannot_be, |backend, _| async move {
    let mut spec = waiting();
    spec.workspace = WorkspaceStart::Empty;
    let started = backend.start(spec).await.unwrap();
    assert_eq!(text(&sh(started.sandbox.as_ref(), "ls -A; pwd").await), "/app\n");
    let slow =
        sh_as(started.sandbox.as_ref(), None, "sleep 77 & sleep 78; echo no", Duration::from_millis(300))
            .await;
    assert_eq!((slow.code, slow.stdout), (None, Vec::new()));
    // Killed, they may take a moment to end.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    let is_slow = |process: &clawrl_sandbox::ProcessFacts| process.command_line.starts_with("sleep 7");
    while started.sandbox.processes().await.iter().any(is_slow) {
        assert!(std::time::Instant::now() < until);
    }
    let fault = |change: fn(&mut clawrl_sandbox::SandboxSpec)| {
        let mut spec = waiting();
        change(&mut spec);
        let backend = &backend;
        async move { backend.start(spec).await.err().unwrap() }
    };
    let image = |spec: &mut clawrl_sandbox::SandboxSpec| spec.image = None;
    assert_eq!(fault(image).await.code, "no-image");
    let user = fault(|spec| spec.image.as_mut().unwrap().user = Some("nobody-here".to_owned())).await;
    assert_eq!(
        (user.code.as_str(), user.retry, user.boundary),
        ("no-such-user", Retry::Never, Boundary::Provider)
    );
    assert!(user.message.contains("nobody-here"), "{user}");
    // This engine has no bridge, as an administrator may have decided.
    let public = fault(|spec| spec.network = clawrl_core::NetworkPolicy::Public).await;
    assert_eq!((public.code.as_str(), public.retry), ("no-bridge", Retry::Never));
});
