//! Imports rows of SWE-bench and similar data sets, and task repositories: suites and refusals.

use std::fs;

use clawrl_config::{ConfigError, load_suite};
use clawrl_import::{Imported, RowChoice, SweOptions, import_swe};
use serde_json::{Value, json};

use crate::place::{Place, rendered};

pub(crate) fn options(place: &Place, source: &str) -> SweOptions {
    SweOptions {
        source: place.path(source),
        output: place.path("suite"),
        choice: RowChoice::All,
        tasks: Vec::new(),
        filter: None,
        image: None,
        workdir: None,
        activate: None,
        hints: false,
        skip_unrepresentable: false,
        force: false,
        max_turns: 100,
    }
}

fn place() -> Place {
    let place = Place::new();
    place.copy("swe", ".");
    place
}

/// The suite, its files and its import record.
fn check_suite(name: &str, place: &Place, options: &SweOptions) -> Imported {
    let imported = import_swe(options).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    let suite = load_suite(&imported.suite).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    assert_eq!(suite.families().len(), imported.count);
    assert!(suite.families().iter().all(|family| family.has_oracle));
    let mut text = fs::read_to_string(&imported.suite).unwrap();
    for id in &imported.tasks {
        let mut names: Vec<_> = fs::read_dir(place.path(&format!("suite/fixtures/{id}")))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        text += &format!("--- fixtures/{id}: {}\n", names.join(", "));
    }
    text += &format!("--- import.json\n{}", fs::read_to_string(place.path("suite/import.json")).unwrap());
    text += &format!("--- notes\n{:#?}\n", imported.notes);
    insta::with_settings!({ snapshot_path => "suites", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name.to_owned(), place.shown(&text));
    });
    imported
}

pub(crate) fn check_refusal(name: &str, place: &Place, imported: Result<Imported, ConfigError>) {
    let error = match imported {
        Ok(_) => panic!("{name} should be refused"),
        Err(error) => error,
    };
    assert!(!place.path("suite").exists(), "something was written");
    for problem in error.problems() {
        assert!(!problem.help_text().is_empty(), "{problem} has no help");
    }
    insta::with_settings!({ snapshot_path => "refusals", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name.to_owned(), place.shown(&rendered(&error)));
    });
}

#[test]
fn swe_bench_and_gym_rows_become_a_suite() {
    let place = place();
    let imported =
        check_suite("swe-bench", &place, &SweOptions { hints: true, ..options(&place, "bench.jsonl") });
    assert_eq!(imported.count, 3);
    let names = fs::read_to_string(place.path("suite/fixtures/pallets-flask-1/pass_to_pass.json")).unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(&names).unwrap().len(), 20);
}

#[test]
fn swe_smith_rows_become_a_suite() {
    let place = place();
    check_suite("swe-smith", &place, &options(&place, "smith.json"));
    let gold =
        fs::read_to_string(place.path("suite/fixtures/ink-pen-1a2b3c4d-func-pm-x1/gold.patch")).unwrap();
    assert!(gold.ends_with("-return -width\n+return width\n"), "{gold}");
}

#[test]
fn rows_that_name_their_commands_become_a_suite() {
    let place = place();
    check_suite("swe-rebench", &place, &options(&place, "rebench.jsonl"));
}

#[test]
fn task_repositories_become_suites() {
    let place = place();
    check_suite("swe-repository", &place, &options(&place, "repository"));
    let asset = place.path("suite/fixtures/ink-pen-1/assets/tests/data/nib.bin");
    assert_eq!(fs::read_to_string(asset).unwrap(), "nib\n");
}

#[test]
fn images_and_rows_are_chosen() {
    let check = |change: fn(&mut SweOptions), expected: &[&str], said: &str| {
        let place = place();
        let mut options = options(&place, "bench.jsonl");
        change(&mut options);
        let imported = import_swe(&options).unwrap_or_else(|error| panic!("{}", rendered(&error)));
        assert_eq!(imported.tasks, expected);
        let suite = fs::read_to_string(&imported.suite).unwrap();
        assert!(suite.contains(said), "{suite}");
    };
    check(
        |options| {
            options.choice = RowChoice::First(1);
            options.image = Some("mine/{image_id}:1".to_owned());
        },
        &["pallets-flask-1"],
        "mine/pallets_1776_flask-1:1",
    );
    check(
        |options| {
            options.filter = Some("moto".to_owned());
            options.workdir = Some("/repo".to_owned());
            options.activate = Some(String::new());
        },
        &["getmoto-moto-4"],
        "workdir: /repo",
    );
    check(
        |options| options.tasks = vec!["django__django-2".to_owned()],
        &["django-django-2"],
        "forms.test_b",
    );
}

/// Rows with one problem each, between valid ones.
fn wrong(place: &Place) -> String {
    let text = fs::read_to_string(place.path("bench.jsonl")).unwrap();
    let good: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let row = |id: &str, key: &str, value: Value| {
        let mut row = json!({ "instance_id": id });
        for key in [
            "repo",
            "base_commit",
            "patch",
            "test_patch",
            "problem_statement",
            "FAIL_TO_PASS",
            "PASS_TO_PASS",
        ] {
            row[key] = good[key].clone();
        }
        if value.is_null() {
            row.as_object_mut().unwrap().remove(key)
        } else {
            row.as_object_mut().unwrap().insert(key.to_owned(), value)
        };
        format!("{row}\n")
    };
    let good = |id: &str| row(id, "version", json!("2.3"));
    [
        good("pallets__flask-1"),
        "{\"instance_id\": \"pallets__flask-2\", \n".to_owned(),
        "[]\n".to_owned(),
        row("pallets__flask-3", "problem_statement", Value::Null),
        row("pallets__flask-4", "FAIL_TO_PASS", json!("tests/test_a.py::test_limit")),
        row("pallets__flask-5", "PASS_TO_PASS", json!({ "a": 1 })),
        row("pallets__flask-6", "patch", json!("limit = 2")),
        good("pallets__flask-1"),
        good("pallets__flask-7"),
    ]
    .concat()
}

#[test]
fn w3_bad_rows_are_refused_at_their_place() {
    let place = place();
    place.write("wrong.jsonl", &wrong(&place));
    check_refusal("swe-rows", &place, import_swe(&options(&place, "wrong.jsonl")));
    let options = SweOptions { skip_unrepresentable: true, ..options(&place, "wrong.jsonl") };
    let imported = import_swe(&options).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    assert_eq!(imported.tasks, ["pallets-flask-1", "pallets-flask-7"]);
    assert_eq!(imported.notes.len(), 7, "{:?}", imported.notes);
}

/// A row with this patch and this test patch.
fn patched(place: &Place, patch: &str, test_patch: &str) -> Result<Imported, ConfigError> {
    let text = fs::read_to_string(place.path("bench.jsonl")).unwrap();
    let mut row: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    (row["patch"], row["test_patch"]) = (patch.into(), test_patch.into());
    // With a byte order mark and NaN, as Windows and pandas write them.
    place.write(
        "patched.jsonl",
        &format!("\u{feff}{}\n", row.to_string().replacen('{', "{\"score\": NaN, ", 1)),
    );
    import_swe(&SweOptions { force: true, ..options(place, "patched.jsonl") })
}

fn changing(name: &str, other: &str) -> String {
    format!("diff --git {name} {other}\n--- {name}\n+++ {other}\n@@ -1 +1 @@\n-a\n+b\n")
}

#[test]
fn patches_with_quoted_names_are_imported() {
    let place = place();
    let patch = changing("\"a/src/caf\\303\\251.py\"", "\"b/src/caf\\303\\251.py\"");
    let tests = changing("\"a/tests/test_\\303\\251.py\"", "\"b/tests/test_\\303\\251.py\"");
    let imported = patched(&place, &patch, &tests).unwrap_or_else(|error| panic!("{}", rendered(&error)));
    let suite = fs::read_to_string(&imported.suite).unwrap();
    assert!(suite.contains("tests/test_é.py"), "the runner is given the name itself: {suite}");
    let gold = place.path("suite/fixtures/pallets-flask-1/gold.patch");
    assert_eq!(fs::read_to_string(gold).unwrap(), patch, "the patch stays as it was");
}

#[test]
fn patches_outside_repository_are_refused() {
    let place = place();
    let good = changing("a/x.py", "b/x.py");
    for (patch, tests) in [
        (changing("a/../x.py", "b/../x.py"), good.clone()),
        (good.clone(), changing("a/tests/x.py", "b/tests/../../x.py")),
        (good.clone(), changing("\"a/\\056\\056/\\303\\251\"", "b/x.py")),
        (changing("a/.git/config", "b/.git/config"), good.clone()),
        (changing("/etc/passwd", "/etc/passwd"), good.clone()),
    ] {
        let error = patched(&place, &patch, &tests).unwrap_err();
        assert_eq!(error.problems().len(), 1, "{patch}{tests}");
        assert!(!place.path("suite").exists());
    }
    assert!(patched(&place, &good, &good).is_ok());
}

#[test]
fn sources_are_refused() {
    let place = place();
    fs::create_dir(place.path("folder")).unwrap();
    check_refusal("swe-no-repository", &place, import_swe(&options(&place, "folder")));
    let named = SweOptions { tasks: vec!["moon".to_owned()], ..options(&place, "bench.jsonl") };
    check_refusal("swe-no-instance", &place, import_swe(&named));
    let unread = SweOptions { filter: Some("sympy".to_owned()), ..options(&place, "bench.jsonl") };
    check_refusal("swe-no-parser", &place, import_swe(&unread));
    place.write(
        "gym.jsonl",
        "{\"repo_name\": \"orange3\", \"docker_image\": \"x\", \"parsed_commit_content\": \"{}\"}\n",
    );
    check_refusal("swe-r2e-gym", &place, import_swe(&options(&place, "gym.jsonl")));
    place.replace("repository/tasks/ink__pen-1/tests.json", "[", "");
    check_refusal("swe-tests-json", &place, import_swe(&options(&place, "repository")));
}
