//! An intentionally degraded agent with a real model fails, and the report lists the tasks.

use std::fs;
use std::path::Path;

use super::ground::Ground;

/// The repository's root.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn an_agent_without_its_prompt_or_a_tool_fails_by_name() {
    let ground = Ground::over(&root().join("tasks/toolcall-basics"), "limit: 19");
    let write = |name: &str, text: &str| {
        fs::create_dir_all(ground.place.path().join("gates")).unwrap();
        fs::write(ground.place.path().join("gates").join(name), text).unwrap();
    };
    let changed = |how: &str| {
        let model = root().join("ci/gates/tiny");
        let command = format!("command: [python3, caller.py, {how}]\nenv: [PATH]\n");
        write("caller.yaml", &format!("format: 1\n{command}model: torch:{}\n", model.display()));
    };
    write("caller.py", include_str!("caller.py"));
    changed("nothing");
    ground.gate("agent", "agent:caller.yaml", super::ground::STEADY);
    ground.accept("agent");
    let said = ground.judge("agent", &[]).ends(0);
    assert!(said.out.contains("all 19 tasks have the baseline's value"), "{}", said.out);
    for how in ["cut-prompt", "no-tool"] {
        changed(how);
        let said = ground.judge("agent", &[]).ends(10);
        assert!(said.out.starts_with("gate agent: fail\n  pass_rate: fail. "), "{how}: {}", said.out);
        let price = "toolcall-basics/price#0             1 of 1  ->  0 of 1  broke";
        assert!(said.out.contains(price), "{how}: {}", said.out);
    }
}
