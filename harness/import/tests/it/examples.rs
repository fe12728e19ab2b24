//! Imports the valid examples for containers and for sandboxes: one snapshot of each suite, which must plan.

use std::fs;
use std::path::Path;

use clawrl_config::{BrowserPlace, HostCapacity, PlanOptions, load_suite, resolve_plan};
use clawrl_core::{EnvSpec, FixtureContent, PolicySpec, RunId, RunPlan, Script};
use clawrl_import::{ImportSandbox, key_tables};

use crate::place::{Format, Place};

const SANDBOXES: [(ImportSandbox, &str); 2] =
    [(ImportSandbox::Container, "container"), (ImportSandbox::Bubblewrap, "bubblewrap")];

pub(crate) fn plan_of(suite: &Path) -> RunPlan {
    let suite = load_suite(suite).unwrap_or_else(|error| panic!("{error}"));
    let host = HostCapacity {
        cpus: 8,
        memory_available_mib: 64 << 10,
        ptys_free: 4096,
        pids_free: 65_536,
        open_files: 65_536,
        browsers: BrowserPlace::Here,
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
fn harbor_examples_become_suites() {
    for name in ["copy", "environment", "reward-json", "python-test", "separate"] {
        check(Format::Harbor, "harbor", name);
    }
    // Its here-documents need BuildKit, which is not used.
    check_in(Format::Harbor, "harbor", "run", &SANDBOXES[1..]);
}

#[test]
fn terminal_bench_examples_become_suites() {
    for name in ["script", "keys", "copy-all"] {
        check(Format::TerminalBench, "terminal-bench", name);
    }
}

#[test]
fn folder_of_tasks_becomes_one_suite() {
    let place = Place::new();
    place.copy("harbor", "tasks");
    let options = place.options(&["tasks"], ImportSandbox::Bubblewrap);
    let imported =
        Format::Harbor.import(&options).unwrap_or_else(|error| panic!("{}", crate::place::rendered(&error)));
    assert_eq!(imported.tasks, ["copy", "environment", "python-test", "reward-json", "run", "separate"]);
    assert_eq!(plan_of(&imported.suite).tasks.len(), 6);
}

/// I3 of the crate, for containers and sandboxes.
#[test]
fn agent_files_hold_no_solution_or_tests() {
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

#[test]
fn keep_alive_commands_are_left_out() {
    let check = |lines: &str, compose: &str, notes: &[&str]| {
        for (sandbox, _) in SANDBOXES {
            let place = Place::new();
            place.copy("harbor/copy", "task");
            place.write(
                "task/environment/Dockerfile",
                &format!("FROM debian:12\nWORKDIR /app\nCOPY notes.txt .\n{lines}\n"),
            );
            let text = format!("services:\n  main:\n    build: .\n{compose}");
            place.write("task/environment/docker-compose.yaml", &text);
            let imported = Format::Harbor
                .import(&place.options(&["task"], sandbox))
                .unwrap_or_else(|error| panic!("{lines} {compose}: {}", crate::place::rendered(&error)));
            for note in notes {
                let said = |(_, found): &(String, String)| found.starts_with(note);
                assert!(imported.notes.iter().any(said), "{note}: {:?}", imported.notes);
            }
        }
    };
    check("ENTRYPOINT [\"/bin/bash\"]", "", &["Dockerfile line 4: `ENTRYPOINT`"]);
    check("ENTRYPOINT [\"tini\", \"--\"]\nCMD tail -f /dev/null", "", &["Dockerfile line 5: `CMD`"]);
    // Harbor runs its own command instead.
    check("CMD [\"python3\", \"server.py\"]", "", &["Dockerfile line 4: `CMD`"]);
    check("", "    command: sleep infinity\n", &["compose line 4: `command`"]);
    check(
        "",
        "    command: [bash, -c, \"while true; do sleep 60; done\"]\n    tty: true\n",
        &["compose line 4"],
    );
    // It replaces the image's.
    check("ENTRYPOINT [\"/server\"]", "    entrypoint: [sh, -c]\n", &["compose line 4: `entrypoint`"]);
    check("", "    command:\n", &[]);
}

/// The Dockerfile's own ignore file takes precedence over its folder's, in both formats and environments.
#[test]
fn ignored_build_files_are_left_out() {
    let check = |format: Format, example: &str, folder: &str, own: bool| {
        for (sandbox, _) in SANDBOXES {
            let place = Place::new();
            place.copy(example, "task");
            for (name, text) in
                [("own.txt", ""), ("common.txt", ""), ("d/note", ""), (".dockerignore", "common.txt\n")]
            {
                place.write(&format!("{folder}/{name}"), text);
            }
            if own {
                place.write(&format!("{folder}/Dockerfile.dockerignore"), "# its own\n[o]wn.*\nDockerfile\n");
            }
            format
                .import(&place.options(&["task"], sandbox))
                .unwrap_or_else(|error| panic!("{example}: {}", crate::place::rendered(&error)));
            let mut lines = Vec::new();
            listing(&place.path("suite/fixtures/task"), "", &mut lines);
            let has = |name: &str| lines.iter().any(|line| line.contains(name));
            assert_eq!((has("/own.txt"), has("/common.txt"), has("/d/note")), (!own, own, true), "{lines:?}");
            // An engine needs both files, even if they exclude each other; a sandbox does not.
            let in_container = sandbox == ImportSandbox::Container;
            assert_eq!(has("/Dockerfile "), in_container || !own, "{lines:?}");
            assert_eq!(has("/Dockerfile.dockerignore "), own, "{lines:?}");
        }
    };
    for own in [false, true] {
        check(Format::Harbor, "harbor/reward-json", "task/environment", own);
        check(Format::TerminalBench, "terminal-bench/copy-all", "task", own);
    }
}

/// Texts of a task arrive in the plan unchanged, even if they look like templates.
#[test]
fn texts_are_imported_literally() {
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
    let Some(Script::Calls(calls)) = &task.oracle else { panic!("an oracle") };
    assert!(
        calls
            .iter()
            .any(|call| call.str_argument("command").is_some_and(|command| command.contains("solve.sh")))
    );
}

/// The import page holds the key tables of the code.
#[test]
fn import_page_lists_all_keys() {
    let page = fs::read_to_string("../docs/guides/import.md").unwrap();
    for table in key_tables() {
        assert!(page.contains(&table), "harness/docs/guides/import.md should hold:\n{table}");
    }
}

/// In a sandbox, the tests have only the workspace and the image.
#[test]
fn test_paths_outside_workspace_are_noted() {
    let check = |sandbox: ImportSandbox, line: &str, expected: Option<&str>| {
        let place = Place::new();
        place.copy("harbor/copy", "task");
        place.write(
            "task/tests/test.sh",
            &format!("#!/bin/bash\n{line}\necho 1 > /logs/verifier/reward.txt\n"),
        );
        let imported = Format::Harbor.import(&place.options(&["task"], sandbox)).unwrap();
        let noted: Vec<&str> = imported
            .notes
            .iter()
            .map(|(_, note)| note.as_str())
            .filter(|note| note.starts_with("the tests name"))
            .collect();
        assert_eq!(noted.len(), usize::from(expected.is_some()), "{line}: {noted:?}");
        if let Some(expected) = expected {
            assert!(noted[0].contains(expected), "{noted:?}");
        }
    };
    let outside = "[ -s /srv/site/index.html ] && cmp /tmp/a/b /home/agent/c";
    let noted = "the tests name `/srv/site/index.html` (tests/test.sh:2), `/tmp/a/b` (tests/test.sh:2), `/home/agent/c` \
                (tests/test.sh:2), outside of the workspace `/app`";
    check(ImportSandbox::Bubblewrap, outside, Some(noted));
    check(
        ImportSandbox::Bubblewrap,
        "[ -s /app/out.txt ] && [ -e /etc/os-release ] && /usr/bin/python3 /tests/x.py",
        None,
    );
    check(ImportSandbox::Container, outside, None);
}
