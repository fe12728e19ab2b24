//! The contract of every environment.

use std::sync::Arc;

use clawrl_core::{EnvProvider, PageCheck, TextPattern, ToolCall};
use clawrl_testkit::conformance::{Case, check_provider};
use serde_json::json;

use crate::support::{PATIENCE, act, page, provider, spec, task, with_spawner};

const COUNTER: &str = "<title>Counter</title><button onclick=\"n.textContent = ++window.count; localStorage.n = window.count\">Add</button>\
    <p id=n>0</p><script>window.count = Number(localStorage.n || 0)</script>";

#[test]
fn browsers_conform() {
    with_spawner(|client| async move {
        let check = PageCheck::Element {
            selector: "#n".to_owned(),
            with: clawrl_core::ElementPattern {
                text: Some(TextPattern::Equals("1".to_owned())),
                ..Default::default()
            },
            at_least: 1,
            at_most: None,
        };
        let case = Case {
            make_provider: Box::new(move || Arc::new(provider(client.clone())) as Arc<dyn EnvProvider>),
            task: task(spec(vec![page("index.html", COUNTER)]), vec![check]),
            quick_calls: vec![act("click 1")],
            long_calls: Some(vec![
                act("wait 10"),
                act("wait 10"),
                act("wait 10"),
                act("wait 10"),
                act("wait 10"),
                act("wait 10"),
                act("wait 10"),
            ]),
            ending_calls: Some(vec![ToolCall::new("submit", json!({}))]),
            deterministic: true,
            patience: PATIENCE,
            at_once: 3,
        };
        check_provider(case).await.assert_conforms();
    });
}
