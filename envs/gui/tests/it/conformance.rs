//! The contract of every environment.

use std::sync::Arc;

use clawrl_core::{EnvProvider, GuiSpec, PageCheck, TextPattern, ToolCall};
use clawrl_testkit::conformance::{Case, check_provider};
use serde_json::json;

use crate::support::{PATIENCE, act, begin, page, provider, spec, task, with_provider, with_spawner};

const COUNTER: &str = "<title>Counter</title><button onclick=\"n.textContent = ++window.count; localStorage.n = window.count\">Add</button>\
    <p id=n>0</p><script>window.count = Number(localStorage.n || 0)</script>";

/// Checks providers that are made so.
pub(crate) async fn conform(make_provider: impl Fn() -> Arc<dyn EnvProvider> + Send + Sync + 'static) {
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
        make_provider: Box::new(make_provider),
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
}

#[test]
fn idle_browsers_count_and_make_way() {
    with_provider(|provider| async move {
        let counted = || (provider.usage().live, provider.usage().warm, provider.usage().peak);
        let small = spec(vec![page("index.html", COUNTER)]);
        let large = GuiSpec { memory_mib: small.memory_mib + 1, ..small.clone() };
        let (small, large) = (task(small, Vec::new()), task(large, Vec::new()));
        let (mut one, _) = begin(provider.as_ref(), &small).await;
        let (mut other, _) = begin(provider.as_ref(), &small).await;
        assert_eq!(counted(), (2, 0, 2));
        one.close().await;
        other.close().await;
        assert_eq!(counted(), (2, 2, 2));
        // A browser of another kind replaces one of these.
        let (mut one, _) = begin(provider.as_ref(), &large).await;
        assert_eq!(counted(), (2, 1, 2));
        let (mut other, _) = begin(provider.as_ref(), &small).await;
        assert_eq!(counted(), (2, 0, 2));
        one.close().await;
        other.close().await;
        assert_eq!(counted(), (2, 2, 2));
        provider.shutdown().await;
        assert_eq!(counted(), (0, 0, 2));
    });
}

mod slow {
    use super::*;

    #[test]
    fn browsers_conform() {
        with_spawner(|client| async move {
            conform(move || Arc::new(provider(client.clone())) as Arc<dyn EnvProvider>).await;
        });
    }
}
