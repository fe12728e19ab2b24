//! What only a real browser tells.

use std::sync::Arc;

use clawrl_core::{Determinism, RunId};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{BubblewrapBackend, BubblewrapConfig, CgroupHost, probe_host};

use super::*;
use crate::programs::find_windowed;

/// Pages open none of these in any browser; those with windows, which read policies, open them for nobody.
#[test]
fn r2_addresses_of_files_and_of_the_browser_are_refused_whoever_asks() {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let config = BubblewrapConfig {
            host: probe_host(CgroupHost::detect()).unwrap(),
            run: RunId::new("gui-policy").unwrap(),
            determinism: Determinism::default(),
        };
        let backend = BubblewrapBackend::new(SpawnerClient::attach(spawner).unwrap(), config).unwrap();
        let backend = Arc::new(backend) as Arc<dyn SandboxBackend>;
        let Ok(programs) = find_windowed(&std::env::var("PATH").unwrap()) else {
            println!("not run: this machine has only a browser without windows");
            return;
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
            // Each in a browser of its own: after one was refused, Chromium at times ends.
            let started = Sandboxed::start(backend.as_ref(), &programs, 1536, "policy".to_owned()).await;
            let (browser, _events) = started.unwrap();
            let context = browser.new_context("127.0.0.1:1", None).await.unwrap();
            let tab = browser.new_tab(&context, (640, 480)).await.unwrap();
            // The driver asks as nobody who types an address can.
            let open = async |address: &str| {
                let question = json!({ "context": tab, "url": address, "wait": "complete" });
                browser.bidi.command("browsingContext.navigate", question).await
            };
            open("data:text/html,<title>Here</title>").await.unwrap();
            let refused = open(address).await.map_err(|error| error.to_string());
            let is_refused = refused.as_ref().is_err_and(|why| why.contains("ERR_BLOCKED_BY_ADMINISTRATOR"));
            assert!(is_refused, "{address}: {refused:?}");
        }
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}
