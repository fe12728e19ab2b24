//! Turns detected faults into tasks of a suite.

use clawrl_config::{Node, NodeValue};
use serde_json::json;

use super::distribution::Distribution;
use super::make::AcceptedFault;
use super::options::SynthOptions;
use crate::draft::{Fixture, FixtureSource, text, whole};

/// Resources of a task: an interpreter, a package and its tests.
const MEMORY_MIB: u64 = 512;
const DISK_MIB: u64 = 128;
const PIDS: u64 = 128;

/// The tasks of a package, and their files.
pub(super) struct PackageDraft {
    pub(super) tasks: Vec<Node>,
    pub(super) fixtures: Vec<Fixture>,
}

/// The head of the suite.
pub(crate) fn head(options: &SynthOptions, command: &str, timeout_secs: u64) -> Vec<(&'static str, Node)> {
    let swe = Node::map(vec![
        ("sandbox", "bubblewrap".into()),
        ("memory_mib", whole(MEMORY_MIB)),
        ("disk_mib", whole(DISK_MIB)),
        ("pids", whole(PIDS)),
        ("test", text(command)),
        ("parser", options.parser.as_str().into()),
        ("test_timeout_secs", whole(timeout_secs)),
        ("protected", NodeValue::List(vec!["tests/**".into(), "test/**".into()]).into()),
    ]);
    let entries = vec![
        ("max_turns", whole(options.max_turns.into())),
        ("step_timeout_secs", whole(120)),
        ("attempt_timeout_secs", whole(1800)),
        ("env", Node::map(vec![("swe", swe)])),
    ];
    vec![("defaults", Node::map(entries))]
}

/// Writes the package's files, the names of its tests, and a task for each fault.
pub(super) fn package(
    distribution: &Distribution,
    passing: &[String],
    kept: &[AcceptedFault],
) -> PackageDraft {
    let folder = format!("fixtures/{}", distribution.name);
    let mut fixtures: Vec<Fixture> = distribution
        .files
        .iter()
        .map(|file| Fixture {
            path: format!("{folder}/repo/{}", file.path),
            content: FixtureSource::Bytes(file.content.to_vec()),
            mode: file.mode,
        })
        .collect();
    let mut add = |path: String, content: String| {
        let node = Node::from(path.as_str());
        fixtures.push(Fixture { path, content: FixtureSource::Bytes(content.into_bytes()), mode: 0o644 });
        node
    };
    let tests = add(format!("{folder}/tests.json"), names(passing));
    let task = |one: &AcceptedFault| {
        let id = &one.id;
        let fault = add(format!("{folder}/faults/{id}.patch"), one.fault.clone());
        let gold = add(format!("{folder}/gold/{id}.patch"), one.gold.clone());
        let failing = one.failing.iter().map(|name| text(name)).collect();
        let swe = Node::map(vec![
            ("files", format!("{folder}/repo").as_str().into()),
            ("apply", NodeValue::List(vec![fault]).into()),
            ("fail_to_pass", NodeValue::List(failing).into()),
            ("pass_to_pass", Node::map(vec![("from", tests.clone())])),
        ]);
        Node::map(vec![
            ("id", id.as_str().into()),
            ("instruction", text(&one.instruction)),
            ("env", Node::map(vec![("swe", swe)])),
            ("oracle", Node::map(vec![("patch", gold)])),
        ])
    };
    let tasks = kept.iter().map(task).collect();
    PackageDraft { tasks, fixtures }
}

/// A JSON list with one name per line.
fn names(names: &[String]) -> String {
    let lines: Vec<String> = names.iter().map(|name| json!(name).to_string()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
