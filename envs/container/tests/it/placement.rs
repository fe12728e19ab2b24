//! Several engines: which one creates a container, and one that dies.

use clawrl_core::{Boundary, EnvProvider, ImageSource, ImageSpec, Retry};
use clawrl_sandbox::{SandboxBackend, SandboxSpec};
use clawrl_testkit::{call, file_equals, ready, step, step_ctx, terminal_task};

use crate::conformance::{provider, terminal};
use crate::engine::{Engine, backend, containers, waiting, with_engine};
use crate::image;

fn named(name: &str) -> SandboxSpec {
    let source = ImageSource::Name(name.to_owned());
    SandboxSpec {
        image: Some(ImageSpec { source, workdir: Some("/app".to_owned()), user: None }),
        ..waiting()
    }
}

/// Names the small image of an engine once more, and takes its usual name away.
async fn rename(engine: &Engine, name: &str) {
    let docker =
        bollard::Docker::connect_with_unix(&engine.socket(), 60, bollard::API_DEFAULT_VERSION).unwrap();
    let docker = docker.negotiate_version().await.unwrap();
    let options =
        bollard::query_parameters::TagImageOptions { repo: Some(name.to_owned()), tag: Some("1".to_owned()) };
    docker.tag_image(image::NAME, Some(options)).await.unwrap();
}

#[test]
fn placement_prefers_image_then_spreads() {
    with_engine(|one, client| async move {
        let other = Engine::start().await;
        rename(&other, "only-there").await;
        let both = format!("{}, {},{}", one.socket(), other.socket(), one.socket());
        let backend = backend(&both, client, "placing").await;
        let count = async || (containers(&one.socket()).await, containers(&other.socket()).await);
        let there = [named("only-there:1"), named("only-there:1")];
        let mut held = Vec::new();
        for spec in there {
            held.push(backend.start(spec).await.unwrap());
        }
        assert_eq!(count().await, (0, 2));
        for expected in [(1, 2), (2, 2), (3, 2), (3, 3)] {
            held.push(backend.start(waiting()).await.unwrap());
            assert_eq!(count().await, expected);
        }
        assert_eq!(backend.live(), 6);
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert_eq!(count().await, (0, 0));
        drop(held);
    });
}

#[test]
fn dead_engine_faults_only_its_attempts() {
    with_engine(|one, client| async move {
        let mut other = Engine::start().await;
        rename(&other, "only-there").await;
        let backend = backend(&format!("{},{}", one.socket(), other.socket()), client, "dying").await;
        let provider = provider(backend.clone());
        let task = terminal_task(terminal(), vec![file_equals("f", "")]);
        let mut here = ready(&provider, &task).await;
        let mut there = ready(&provider, &task).await;
        assert_eq!((containers(&one.socket()).await, containers(&other.socket()).await), (1, 1));
        other.end();
        let lost = there.step(&[call("echo off")], step_ctx(2)).await.unwrap_err();
        let found = (lost.boundary, lost.code.as_str(), lost.retry);
        assert_eq!(found, (Boundary::Env, "container-lost", Retry::Sound));
        assert_eq!(step(here.as_mut(), "echo on").await, "on\n[exit 0]");
        // The next container goes to the other engine, although that has more.
        let mut next = ready(&provider, &task).await;
        assert_eq!(step(next.as_mut(), "echo on").await, "on\n[exit 0]");
        assert_eq!(containers(&one.socket()).await, 2);
        // An image that only the dead one has may be there again later.
        let away = backend.start(named("only-there:1")).await.err().unwrap();
        assert_eq!((away.boundary, away.retry), (Boundary::Provider, Retry::Sound), "{away}");
        other.start_again().await;
        drop(backend.start(named("only-there:1")).await.unwrap());
        for env in [&mut here, &mut there, &mut next] {
            assert_eq!(env.close().await.leftovers, Vec::<String>::new());
        }
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    });
}
