//! Containers of a container engine over TCP with TLS, which this process cannot enter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clawrl_container::{EngineAccess, probe_engines};
use clawrl_core::{Boundary, EnvProvider, Retry};
use clawrl_sandbox::SandboxBackend;
use clawrl_testkit::conformance::check_provider;
use clawrl_testkit::{call, file_equals, ready, step, step_ctx, terminal_case, terminal_task};

use crate::conformance::{provider, terminal};
use crate::engine::{all_containers, backend_by, containers, sh, start, text, with_engine};
use crate::tls::Tls;

#[test]
fn broken_connection_faults_one_attempt() {
    with_engine(|engine, client| async move {
        let tls = Tls::before(&engine.socket()).await;
        let provider = provider(backend_by(&tls.access(), client, "cut", None).await);
        let task = terminal_task(terminal(), vec![file_equals("f", "")]);
        let mut first = ready(&provider, &task).await;
        let mut second = ready(&provider, &task).await;
        assert_eq!(step(first.as_mut(), "echo on").await, "on\n[exit 0]");
        // Two for them, and the node's.
        assert_eq!(
            (containers(&engine.socket()).await, all_containers(&engine.socket()).await.len()),
            (2, 3)
        );
        tls.cut();
        let lost = first.step(&[call("echo off")], step_ctx(2)).await.unwrap_err();
        assert_eq!(
            (lost.boundary, lost.code.as_str(), lost.retry),
            (Boundary::Env, "node-lost", Retry::Sound)
        );
        let lost = second.grade(step_ctx(3)).await.unwrap_err();
        assert_eq!((lost.code.as_str(), lost.retry), ("node-lost", Retry::Sound));
        first.close().await;
        second.close().await;
        let mut third = ready(&provider, &task).await;
        assert_eq!(step(third.as_mut(), "echo on").await, "on\n[exit 0]");
        assert!(third.close().await.leftovers.is_empty());
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert!(all_containers(&engine.socket()).await.is_empty());
    });
}

#[test]
fn several_engines_make_containers_wherever_they_are() {
    with_engine(|engine, client| async move {
        let other = crate::engine::Engine::start().await;
        let tls = Tls::before(&other.socket()).await;
        let access = EngineAccess {
            addresses: format!("{}, {}", engine.socket(), tls.access().addresses),
            ..tls.access()
        };
        let backend = backend_by(&access, client, "both", None).await;
        let (first, second) = (start(&backend).await, start(&backend).await);
        // One each, and the node as well.
        let (here, there) = (all_containers(&engine.socket()).await, all_containers(&other.socket()).await);
        assert_eq!((here.len(), there.len()), (1, 2));
        for started in [&first, &second] {
            assert_eq!(text(&sh(started.sandbox.as_ref(), "cat in-image.txt").await), "from the image\n");
        }
        drop((first, second));
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert!(all_containers(&other.socket()).await.is_empty());
    });
}

#[test]
fn missing_certificate_is_reported() {
    with_engine(|engine, _| async move {
        let tls = Tls::before(&engine.socket()).await;
        let refused = async |access: EngineAccess, code: &str, part: &str| {
            let fault = probe_engines(&access).await.unwrap_err();
            assert_eq!((fault.code.as_str(), fault.retry), (code, Retry::Never), "{fault}");
            assert!(fault.message.contains(part), "{fault}");
        };
        // A certificate of another name, and one of another authority.
        let named = tls.access().addresses.replace("127.0.0.1", "localhost");
        refused(EngineAccess { addresses: named, ..tls.access() }, "engine-missing", "not valid for name")
            .await;
        let stranger = tempfile::tempdir().unwrap();
        for (from, to) in
            [("stranger.pem", "ca.pem"), ("of-client/cert.pem", "cert.pem"), ("of-client/key.pem", "key.pem")]
        {
            std::fs::copy(crate::tls::file(from), stranger.path().join(to)).unwrap();
        }
        let other = EngineAccess { certificates: Some(stranger.path().to_owned()), ..tls.access() };
        refused(other, "engine-missing", "certificate").await;
        let empty = tempfile::tempdir().unwrap();
        let without = EngineAccess { certificates: Some(empty.path().to_owned()), ..tls.access() };
        refused(without, "engine-missing", ".pem").await;
        refused(EngineAccess::new(tls.access().addresses), "engine-missing", "no container engine answers")
            .await;
        refused(EngineAccess::new("tcp://10.0.0.1:2376"), "engine-without-tls", "DOCKER_CERT_PATH").await;
        refused(EngineAccess::new("ssh://somewhere"), "engine-address", "tcp://HOST:PORT").await;
        assert_eq!(probe_engines(&tls.access()).await.unwrap().len(), 1);
    });
}

mod slow {
    use super::*;

    #[test]
    fn containers_elsewhere_conform() {
        with_engine(|engine, client| async move {
            let tls = Tls::before(&engine.socket()).await;
            let mut backends = Vec::new();
            for number in 0..13 {
                let run = format!("conform-{number}");
                backends.push(backend_by(&tls.access(), client.clone(), &run, None).await);
            }
            let backends = Mutex::new(backends);
            let provider =
                move || Arc::new(provider(backends.lock().unwrap().pop().unwrap())) as Arc<dyn EnvProvider>;
            let case = terminal_case(provider, terminal(), Duration::from_secs(30));
            check_provider(case).await.assert_conforms();
            assert!(all_containers(&engine.socket()).await.is_empty());
        });
    }
}
