//! The backend's guarantees without attacks.

use std::time::Duration;

use clawrl_core::LINK_MODE;
use clawrl_sandbox::{LocalBackend, PutFile, SandboxBackend, StartedSandbox};

use crate::support::{running, sh, sh_within, start, text, with_backend};

#[test]
fn a_sandbox_runs_programs_and_ends() {
    with_backend("basic", |backend| async move {
        let started = start(&backend, "a").await;
        let output = sh(started.sandbox.as_ref(), "id -u; pwd; hostname; echo $HOME; cat").await;
        assert_eq!((output.code, text(&output).as_str()), (Some(0), "1000\n/work\nsandbox\n/home/agent\n"));
        assert_eq!(backend.live(), 1);
        started.sandbox.kill().await.unwrap();
        started.sandbox.kill().await.unwrap();
        assert_eq!(backend.live(), 0);
    });
}

#[test]
fn exit_codes_and_streams_are_kept_apart() {
    with_backend("streams", |backend| async move {
        let started = start(&backend, "a").await;
        let output = sh(started.sandbox.as_ref(), "echo out; echo err >&2; exit 7").await;
        assert_eq!(
            (output.code, &output.stdout[..], &output.stderr[..]),
            (Some(7), &b"out\n"[..], &b"err\n"[..])
        );
        let output = sh(started.sandbox.as_ref(), "kill -SEGV $$").await;
        assert_eq!(output.code, Some(139));
        let output = sh(started.sandbox.as_ref(), "head -c 3000000 /dev/zero").await;
        assert_eq!((output.code, output.stdout.len()), (Some(0), 1 << 20));
    });
}

#[test]
fn endless_program_is_killed_with_children() {
    with_backend("deadline", |backend| async move {
        let started = start(&backend, "a").await;
        let output = sh_within(
            started.sandbox.as_ref(),
            "echo begun; sleep 1000 & sleep 1000",
            Duration::from_secs(2),
        )
        .await;
        assert_eq!((output.code, &output.stdout[..]), (None, &b"begun\n"[..]));
        let left = started.sandbox.processes().await;
        assert!(left.iter().all(|process| !process.command_line.contains("1000")), "{left:?}");
    });
}

#[test]
fn i1_daemon_does_not_delay_program_end() {
    with_backend("daemon", |backend| async move {
        let started = start(&backend, "a").await;
        let script =
            r"setsid sleep 4242 & until tr '\0' ' ' </proc/$!/cmdline | grep -q '^sleep 4242'; do :; done";
        let output = sh(started.sandbox.as_ref(), &format!("{script}; echo started")).await;
        assert_eq!((output.code, &output.stdout[..]), (Some(0), &b"started\n"[..]));
        let daemon = started.sandbox.processes().await;
        let daemon = daemon.iter().find(|process| process.command_line == "sleep 4242").unwrap().clone();
        started.sandbox.kill().await.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.host_pid));
        assert!(stat.is_err(), "{stat:?}");
    });
}

#[test]
fn files_are_put_for_the_agent_and_read_after_the_end() {
    with_backend("files", |backend| async move {
        let started = start(&backend, "a").await;
        let put = |path: &str, mode: u32, content: &str| PutFile {
            path: path.to_owned(),
            mode,
            content: content.as_bytes().into(),
        };
        started.sandbox.put(vec![put("d/run.sh", 0o755, "#!/bin/sh\necho ran > out\n")]).await.unwrap();
        let output =
            sh(started.sandbox.as_ref(), "d/run.sh && stat -c '%U %a' d/run.sh && rm d/run.sh").await;
        assert_eq!(text(&output), "agent 755\n");
        let workspace = started.sandbox.workspace().await.unwrap().unwrap();
        started.sandbox.kill().await.unwrap();
        drop(started);
        assert_eq!(workspace.read_file("out", 100).unwrap(), b"ran\n");
        assert!(!workspace.exists("d/run.sh").unwrap());
    });
}

#[test]
fn links_are_put_as_links_and_followed_inside_alone() {
    with_backend("links", |backend| async move {
        let started = start(&backend, "a").await;
        let put = |path: &str, mode: u32, content: &str| PutFile {
            path: path.to_owned(),
            mode,
            content: content.as_bytes().into(),
        };
        let files = vec![
            put("docs/guide.md", 0o644, "guide\n"),
            put("latest", LINK_MODE, "docs"),
            put("docs/self", LINK_MODE, "guide.md"),
            put("nowhere", LINK_MODE, "none/at/all"),
            put("root", LINK_MODE, "/"),
        ];
        started.sandbox.put(files).await.unwrap();
        // A link replaces an existing entry, and a file is never written through one.
        started.sandbox.put(vec![put("nowhere", LINK_MODE, "docs/self")]).await.unwrap();
        let refused = started.sandbox.put(vec![put("root/planted", 0o644, "x")]).await.unwrap_err();
        assert!(refused.message.contains("symbolic link"), "{refused}");
        let output =
            sh(started.sandbox.as_ref(), "readlink latest; cat latest/self nowhere; stat -c %U latest").await;
        assert_eq!(text(&output), "docs\nguide\nguide\nagent\n");
        let workspace = started.sandbox.workspace().await.unwrap().unwrap();
        assert!(workspace.read_file("nowhere", 100).is_err(), "the harness follows none");
        started.sandbox.kill().await.unwrap();
    });
}

#[test]
fn dropping_ends_a_sandbox() {
    with_backend("drop", |backend| async move {
        let sandboxes = [start(&backend, "a").await, start(&backend, "b").await];
        assert_eq!((backend.live(), backend.peak()), (2, 2));
        drop(sandboxes);
        // `with_backend` checks that shutting down finds nothing alive.
    });
}

/// More of them than may be ending at once, one after another: each gives its place back.
#[test]
fn killed_sandboxes_return_their_kill_slots() {
    with_backend("last", |backend| async move {
        for _ in 0..260 {
            let started = start(&backend, "one").await;
            started.sandbox.kill().await.unwrap();
            started.sandbox.kill().await.unwrap();
        }
    });
}

#[test]
fn dropping_a_start_leaks_nothing() {
    with_backend("drop-start", |backend| async move {
        for delay_us in [0, 500, 1000, 2000, 3000, 5000, 8000] {
            let starting = backend.start(running("a", "sleep infinity"));
            let _ = tokio::time::timeout(Duration::from_micros(delay_us), starting).await;
        }
    });
}

#[test]
fn a_main_program_that_ends_ends_the_sandbox() {
    with_backend("ends", |backend| async move {
        ended_at_once(backend.start(running("a", "exit 3")).await).await;
        assert_eq!(backend.live(), 0);
    });
}

/// A main program that ends at once may end before or after the sandbox counts as started.
async fn ended_at_once(started: Result<StartedSandbox, clawrl_core::Fault>) {
    match started {
        Ok(started) => started.sandbox.kill().await.unwrap(),
        Err(fault) => assert_eq!(fault.code, "sandbox-start", "{fault}"),
    }
}

#[test]
fn failed_start_is_explained() {
    with_backend("why", |backend| async move {
        let mut spec = running("a", "true");
        spec.main.program = "no-such-shell".to_owned();
        // The program is looked up inside, so its absence shows on the terminal and as the sandbox's end.
        ended_at_once(backend.start(spec).await).await;
        let mut spec = running("a", "true");
        spec.support_files = vec![("/proc/x".to_owned(), String::new())];
        let fault = backend.start(spec).await.err().unwrap();
        assert_eq!(fault.code, "sandbox-start", "{fault}");
        assert!(fault.message.contains("/proc/x") && fault.message.contains("clawrl doctor"), "{fault}");
    });
}

#[test]
fn without_isolation_everything_still_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let spawner = crate::support::spawner();
    runtime.block_on(async {
        let client = clawrl_sandbox::spawner::SpawnerClient::attach(spawner).unwrap();
        let run = clawrl_core::RunId::new("test-local").unwrap();
        let backend = LocalBackend::new(client, &run, clawrl_core::Determinism::default());
        let mut spec = running("a", "cat /etc/support; sleep infinity");
        spec.support_files = vec![("/etc/support".to_owned(), "here".to_owned())];
        let started = backend.start(spec).await.unwrap();
        let sandbox = started.sandbox.as_ref();
        let file = PutFile { path: "in/f".to_owned(), mode: 0o600, content: b"hello\n".as_slice().into() };
        sandbox.put(vec![file]).await.unwrap();
        let output = sh(sandbox, "cat in/f; pwd; setsid sleep 4343 & echo $TZ").await;
        let said = text(&output);
        assert!(said.starts_with("hello\n") && said.contains("/work\n") && said.contains("UTC\n"), "{said}");
        let slow = sh_within(sandbox, "sleep 1000", Duration::from_millis(200)).await;
        assert_eq!(slow.code, None);
        assert_eq!(backend.live(), 1);
        sandbox.kill().await.unwrap();
        assert!(sandbox.processes().await.is_empty());
        let workspace = sandbox.workspace().await.unwrap().unwrap();
        assert_eq!(workspace.read_file("in/f", 100).unwrap(), b"hello\n");
        drop(started);
        let forgotten = backend.start(running("b", "sleep infinity")).await.unwrap();
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert_eq!(backend.live(), 0);
        drop(forgotten);
    });
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("clawrl-test-local")));
}
