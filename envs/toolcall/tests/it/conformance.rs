//! The contract of every environment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Check, EnvProvider, ToolKind};
use clawrl_testkit::conformance::{Case, check_provider};
use clawrl_testkit::{file_equals, text_file};
use serde_json::json;

use crate::support::{
    bare_provider, call, code, command, in_process, provider, sandboxed, submit, tool, toolcall_task,
    with_spawner, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_in_this_process_conform() {
    let store = tool("store", ToolKind::Store { initial: BTreeMap::new() });
    let spec = in_process(vec![
        tool("compute", ToolKind::Arithmetic),
        store,
        within(3_600_000, tool("never", ToolKind::Never)),
    ]);
    let stored = Check::Stored { tool: "store".to_owned(), key: "k".to_owned(), equals: None };
    let case = Case {
        make_provider: Box::new(|| Arc::new(bare_provider()) as Arc<dyn EnvProvider>),
        task: toolcall_task(spec, vec![stored]),
        quick_calls: vec![
            call("compute", json!({"left": 2, "operator": "+", "right": 3})),
            call("store", json!({"action": "set", "key": "k", "value": "v"})),
            call("store", json!({"action": "list"})),
        ],
        long_calls: Some(vec![call("never", json!({}))]),
        ending_calls: Some(vec![submit("x")]),
        deterministic: true,
        patience: Duration::from_secs(10),
        at_once: 64,
    };
    check_provider(case).await.assert_conforms();
}

#[test]
fn tools_in_sandboxes_conform() {
    with_spawner(|client| async move {
        let mut spec = sandboxed(vec![tool("python", ToolKind::Python), command("show", &["cat", "in.txt"])]);
        spec.workspace.as_mut().unwrap().files = vec![text_file("in.txt", "three\nlines\nhere\n")];
        let of_provider = spec.clone();
        let text = "import os, random\nn = globals().get('n', 0) + 1\n\
                    (n, random.random(), hash('a'), os.environ['PYTHONHASHSEED'])";
        let case = Case {
            make_provider: Box::new(move || {
                Arc::new(provider(client.clone(), &of_provider)) as Arc<dyn EnvProvider>
            }),
            task: toolcall_task(spec, vec![file_equals("out.txt", "")]),
            quick_calls: vec![code(text), call("show", json!({}))],
            long_calls: Some(vec![code("import time; time.sleep(1000)")]),
            ending_calls: Some(vec![code("open('out.txt', 'w').close()"), submit("x")]),
            deterministic: true,
            patience: Duration::from_secs(20),
            at_once: 8,
        };
        check_provider(case).await.assert_conforms();
    });
}
