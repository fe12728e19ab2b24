//! Tests that need a real browser.

use std::sync::Arc;

use clawrl_core::{Determinism, RunId};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{BubblewrapBackend, BubblewrapConfig, CgroupHost, probe_host};

use super::*;
use crate::programs::{find_programs, find_windowed};

/// Runs a test with a backend that must be empty afterwards.
fn with_backend(test: impl AsyncFnOnce(&dyn SandboxBackend)) {
    let spawner = Spawner::start().expect("a spawner");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
    runtime.expect("threads").block_on(async {
        let config = BubblewrapConfig {
            host: probe_host(CgroupHost::detect()).expect("a host"),
            run: RunId::new("gui-policy").expect("a name"),
            determinism: Determinism::default(),
        };
        let spawner = SpawnerClient::attach(spawner).expect("a connection");
        let backend = Arc::new(BubblewrapBackend::new(spawner, config).expect("a backend"));
        test(backend.as_ref()).await;
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}

/// No page may open these addresses in any browser; browsers with windows, which read policies, refuse them to
/// everyone.
#[test]
fn r2_file_and_browser_addresses_are_refused() {
    with_backend(async |backend| {
        let programs = match find_windowed(&std::env::var("PATH").unwrap()) {
            Err(fault) if fault.code == "browser-missing" => {
                println!("not run: this machine has only a browser without windows");
                return;
            }
            found => found.unwrap(),
        };
        for address in [
            "file:///etc/passwd",
            "file:///",
            "chrome://version/",
            "chrome://policy/",
            "chrome-untrusted://new-tab-page/",
            "devtools://devtools/bundled/inspector.html",
            "view-source:http://app.localhost/",
        ] {
            // Each in a browser of its own: after a refusal, Chromium sometimes ends.
            let started = SandboxedBrowser::start(backend, &programs, 1536, "policy".to_owned()).await;
            let (browser, _events) = started.unwrap();
            let context = browser.new_context("127.0.0.1:1", None).await.unwrap();
            let tab = browser.new_tab(&context, (640, 480)).await.unwrap();
            // The driver's request is equivalent to a typed address.
            let open = async |address: &str| {
                let question = json!({ "context": tab, "url": address, "wait": "complete" });
                browser.bidi.command("browsingContext.navigate", question).await
            };
            open("data:text/html,<title>Here</title>").await.unwrap();
            let refused = open(address).await.map_err(|error| error.to_string());
            let is_refused = refused.as_ref().is_err_and(|why| why.contains("ERR_BLOCKED_BY_ADMINISTRATOR"));
            assert!(is_refused, "{address}: {refused:?}");
        }
    });
}

/// If the driver's page writes messages down, it has an element for that: after a start there must be none left to
/// remove.
#[test]
fn driver_page_logs_no_messages() {
    with_backend(async |backend| {
        let programs = find_programs(&std::env::var("PATH").unwrap()).unwrap();
        let started = SandboxedBrowser::start(backend, &programs, 1536, "mapper".to_owned()).await;
        let (browser, _events) = started.unwrap();
        let options = browser.client.capabilities().unwrap()["goog:chromeOptions"].clone();
        let address = options["debuggerAddress"].as_str().unwrap();
        let BrowserHost::Sandbox(sandboxed) = &browser.host else { panic!("it is in a sandbox") };
        let again = mapper::quieten(&sandboxed.network, address).await;
        assert_eq!(again, Err("it does not log messages".to_owned()));
        let nobody = mapper::quieten(&sandboxed.network, "127.0.0.1:1").await;
        assert!(nobody.is_err_and(|why| !why.contains("writes")));
        drop(browser);
    });
}
