//! The contract of every environment.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::EnvProvider;
use clawrl_testkit::conformance::{Case, check_provider};
use serde_json::json;

use crate::support::{
    GUESS, ROGUE, bare_provider, call, custom_task, guess, http, provider, python, serve, with_spawner,
};

#[test]
fn programs_conform() {
    with_spawner(|client| async move {
        let spec = python(ROGUE, json!(null));
        let of_provider = spec.clone();
        let case = Case {
            make_provider: Box::new(move || {
                Arc::new(provider(client.clone(), &of_provider)) as Arc<dyn EnvProvider>
            }),
            task: custom_task(spec),
            quick_calls: vec![call("do", json!({ "what": "it" })), call("do", json!({ "what": "again" }))],
            long_calls: Some(vec![call("wait", json!({}))]),
            ending_calls: Some(vec![call("submit", json!({}))]),
            deterministic: true,
            patience: Duration::from_secs(20),
            at_once: 8,
        };
        check_provider(case).await.assert_conforms();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_conform() {
    let (_server, address) = serve(GUESS).await;
    let case = Case {
        make_provider: Box::new(|| Arc::new(bare_provider()) as Arc<dyn EnvProvider>),
        task: custom_task(http(&address, json!({ "secret": 17, "tries": 50 }))),
        quick_calls: vec![guess(3)],
        long_calls: None,
        ending_calls: Some(vec![guess(17)]),
        deterministic: true,
        patience: Duration::from_secs(20),
        at_once: 16,
    };
    check_provider(case).await.assert_conforms();
}
