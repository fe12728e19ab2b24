//! The good examples, imported for containers and for sandboxes: one snapshot of each suite, which must plan.

use std::fs;
use std::path::Path;

use clawrl_config::{HostCapacity, PlanOptions, load_suite, resolve_plan};
use clawrl_core::{EnvSpec, FixtureContent, PolicySpec, RunId, RunPlan, Script};
use clawrl_import::{ImportSandbox, key_tables};

use crate::place::{Format, Place};

const SANDBOXES: [(ImportSandbox, &str); 2] =
    [(ImportSandbox::Container, "container"), (ImportSandbox::Bubblewrap, "bubblewrap")];

fn plan_of(suite: &Path) -> RunPlan {
    let suite = load_suite(suite).unwrap_or_else(|error| panic!("{error}"));
    let host = HostCapacity {
        cpus: 8,
        memory_available_mib: 64 << 10,
        ptys_free: 4096,
        pids_free: 65_536,
        open_files: 65_536,
    };
    let run = RunId::new("test").expect("a good name");
    let options = PlanOptions::new(run, PolicySpec::Noop, host);
    resolve_plan(std::slice::from_ref(&suite), &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Every file below a folder, with its mode and text.
fn listing(folder: &Path, below: &str, lines: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    let mut names: Vec<String> = fs::read_dir(folder.join(below))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let metadata = fs::symlink_metadata(folder.join(&path)).unwrap();
        if metadata.is_dir() {
            listing(folder, &path, lines);
        } else if metadata.is_symlink() {
            lines.push(format!("{path} -> {}", fs::read_link(folder.join(&path)).unwrap().display()));
        } else {
            lines.push(format!("{path} {:o}", metadata.permissions().mode() & 0o777));
        }
    }
}

fn check(format: Format, folder: &str, name: &str) {
    check_in(format, folder, name, &SANDBOXES);
}

fn check_in(format: Format, folder: &str, name: &str, sandboxes: &[(ImportSandbox, &str)]) {
    for &(sandbox, word) in sandboxes {
        let place = Place::new();
        place.copy(&format!("{folder}/{name}"), name);
        let imported = format
            .import(&place.options(&[name], sandbox))
            .unwrap_or_else(|error| panic!("{}", crate::place::rendered(&error)));
        assert_eq!(imported.tasks, [name]);
        let suite = fs::read_to_string(&imported.suite).unwrap();
        let record = fs::read_to_string(place.path("suite/import.json")).unwrap();
        let mut lines = Vec::new();
        listing(&place.path("suite"), "", &mut lines);
        let plan = plan_of(&imported.suite);
        assert!(plan.tasks[0].oracle.is_some());
        assert!(!suite.contains("hidden"), "a secret was written");
        let text = place.shown(&format!("{suite}--- files\n{}\n--- import.json\n{record}", lines.join("\n")));
        insta::with_settings!({ snapshot_path => "suites", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("{folder}-{name}-{word}"), text);
        });
    }
}

#[test]
fn examples_of_harbor_become_suites() {
    for name in ["copy", "environment", "reward-json", "python-test", "separate"] {
        check(Format::Harbor, "harbor", name);
    }
    // Its here-documents need BuildKit, which engines are not asked for.
    check_in(Format::Harbor, "harbor", "run", &SANDBOXES[1..]);
}

#[test]
fn examples_of_terminal_bench_become_suites() {
    for name in ["script", "keys", "copy-all"] {
        check(Format::TerminalBench, "terminal-bench", name);
    }
}

#[test]
fn a_folder_of_tasks_becomes_one_suite() {
    let place = Place::new();
    place.copy("harbor", "tasks");
    let options = place.options(&["tasks"], ImportSandbox::Bubblewrap);
    let imported =
        Format::Harbor.import(&options).unwrap_or_else(|error| panic!("{}", crate::place::rendered(&error)));
    assert_eq!(imported.tasks, ["copy", "environment", "python-test", "reward-json", "run", "separate"]);
    assert_eq!(plan_of(&imported.suite).tasks.len(), 6);
}

/// I3 of the crate: what the agent's workspace begins with, in either kind of environment.
#[test]
fn the_agent_finds_neither_solution_nor_tests() {
    for (sandbox, _) in SANDBOXES {
        let place = Place::new();
        place.copy("terminal-bench/copy-all", "copy-all");
        let imported = Format::TerminalBench.import(&place.options(&["copy-all"], sandbox)).unwrap();
        let mut lines = Vec::new();
        listing(&place.path("suite"), "", &mut lines);
        let seen: Vec<&String> =
            lines.iter().filter(|line| !line.starts_with("fixtures/copy-all/tests/")).collect();
        assert!(seen.iter().any(|line| line.contains("apple.txt")), "{seen:?}");
        let hidden = |line: &&&String| {
            line.contains("solution") || line.contains("tests") || line.contains("task.yaml")
        };
        assert_eq!(seen.iter().find(hidden), None);
        let EnvSpec::Terminal(terminal) = &plan_of(&imported.suite).tasks[0].env else {
            panic!("a terminal")
        };
        for file in &terminal.files {
            let FixtureContent::Inline(text) = &file.content else { continue };
            assert!(!text.contains("test_list"), "{} shows the tests", file.path);
        }
    }
}

/// Texts of a task arrive in the plan as they are, whatever templates would make of them.
#[test]
fn texts_are_no_templates() {
    let place = Place::new();
    place.copy("harbor/environment", "task");
    let text = "{{ a }} {% b %} {# c #}\n\t{{{ }}} 'd' \"e\" \\ é \u{1F980}\r\nlast";
    place.write("task/instruction.md", text);
    place.replace("task/task.toml", "it's {{ fine }}", "{{ {% {#");
    let imported = Format::Harbor.import(&place.options(&["task"], ImportSandbox::Bubblewrap)).unwrap();
    let plan = plan_of(&imported.suite);
    let task = &plan.tasks[0];
    assert_eq!(task.instruction, text);
    let EnvSpec::Terminal(terminal) = &task.env else { panic!("a terminal") };
    assert_eq!(terminal.env["GREETING"], "{{ {% {#");
    let Some(Script { calls }) = &task.oracle else { panic!("an oracle") };
    assert!(
        calls
            .iter()
            .any(|call| call.str_argument("command").is_some_and(|command| command.contains("solve.sh")))
    );
}

/// The page holds the lists of keys as the code has them.
#[test]
fn the_page_has_the_keys() {
    let page = fs::read_to_string("../docs/import.md").unwrap();
    for table in key_tables() {
        assert!(page.contains(&table), "harness/docs/import.md should hold:\n{table}");
    }
}
