//! An engine that is restarted under its containers.

use clawrl_core::{Boundary, EnvProvider, Retry};
use clawrl_sandbox::SandboxBackend;
use clawrl_testkit::{call, file_equals, ready, step, step_ctx, terminal_task};

use crate::conformance::{provider, terminal};
use crate::engine::{backend, removed_but, sh, start, text, waiting, with_engine};

#[test]
fn engine_restart_faults_one_attempt() {
    with_engine(|mut engine, client| async move {
        let provider = provider(backend(&engine.socket(), client, "restarted").await);
        let task = terminal_task(terminal(), vec![file_equals("f", "")]);
        let mut first = ready(&provider, &task).await;
        let mut second = ready(&provider, &task).await;
        assert_eq!(step(first.as_mut(), "echo on").await, "on\n[exit 0]");
        engine.restart().await;
        let lost = first.step(&[call("echo off")], step_ctx(2)).await.unwrap_err();
        assert_eq!(
            (lost.boundary, lost.code.as_str(), lost.retry),
            (Boundary::Env, "container-lost", Retry::Sound)
        );
        // The work so far is not graded either: the agent's next actions are unknown.
        let lost = second.grade(step_ctx(3)).await.unwrap_err();
        assert_eq!((lost.code.as_str(), lost.retry), ("container-lost", Retry::Sound));
        assert!(first.close().await.leftovers.is_empty() && second.close().await.leftovers.is_empty());
        let mut third = ready(&provider, &task).await;
        assert_eq!(step(third.as_mut(), "echo on").await, "on\n[exit 0]");
        assert!(third.close().await.leftovers.is_empty());
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    });
}

#[test]
fn restarting_engine_is_awaited() {
    with_engine(|mut engine, client| async move {
        let backend = backend(&engine.socket(), client, "away").await;
        drop(start(&backend).await);
        engine.end();
        let (started, ()) = tokio::join!(backend.start(waiting()), async {
            // The first try fails, before the engine listens.
            tokio::task::yield_now().await;
            engine.start_again().await;
        });
        assert_eq!(text(&sh(started.unwrap().sandbox.as_ref(), "echo on").await), "on\n");
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}

#[test]
fn refused_removal_is_retried() {
    with_engine(|mut engine, client| async move {
        let backend = backend(&engine.socket(), client, "later").await;
        let started = start(&backend).await;
        engine.end();
        drop(started);
        // The first try fails, before the engine listens.
        tokio::task::yield_now().await;
        engine.start_again().await;
        removed_but(0, &engine.socket()).await;
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}
