//! The contract of every environment.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EnvProvider, ToolCall};
use clawrl_testkit::conformance::{Case, check_provider};
use serde_json::json;

use crate::support::{file_equals, fixture, provider, run, task, terminal, with_spawner};

#[test]
fn terminals_conform() {
    with_spawner(|client| async move {
        let mut spec = terminal();
        spec.files = vec![fixture("in.txt", "three\nlines\nhere\n")];
        spec.setup = vec!["mkdir made".to_owned()];
        let case = Case {
            make_provider: Box::new(move || Arc::new(provider(client.clone())) as Arc<dyn EnvProvider>),
            task: task(spec, vec![file_equals("out.txt", "3\n")]),
            quick_calls: vec![run("wc -l < in.txt > out.txt; ls; echo $RANDOM $PYTHONHASHSEED")],
            long_calls: Some(vec![run("sleep 1000")]),
            ending_calls: Some(vec![ToolCall::new("submit", json!({}))]),
            deterministic: true,
            patience: Duration::from_secs(10),
            at_once: 8,
        };
        check_provider(case).await.assert_conforms();
    });
}
