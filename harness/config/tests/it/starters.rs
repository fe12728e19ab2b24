//! New suites and tasks.

use std::fs;
use std::path::Path;

use clawrl_config::{PlanOptions, json_schema_text, load_suite, new_suite, new_task, resolve_plan};
use clawrl_core::PolicySpec;

use crate::diagnostics::rendered;
use crate::plans::options;

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a suite")
}

#[test]
fn a_new_suite_loads_and_has_what_it_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = new_suite(folder.path(), "my-suite").expect("a new suite");
    assert_eq!(path, folder.path().join("my-suite/suite.yaml"));
    let suite = load_suite(&path).expect("a suite that loads");
    assert!(suite.warnings().is_empty());
    assert!(suite.families().iter().all(|family| family.has_oracle && family.mistakes > 0));
    let policy = PolicySpec::Demonstrator { oracle_percent: 50 };
    let plan = resolve_plan(&[suite], &PlanOptions { policy, ..options() }).expect("a plan");
    assert_eq!(plan.tasks.len(), 9);
    insta::assert_snapshot!("new_suite", text(&path));
}

#[test]
fn the_schema_is_named_where_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("schema")).expect("a folder");
    fs::write(folder.path().join("schema/suite.schema.json"), json_schema_text()).expect("a file");
    let path = new_suite(folder.path(), "my-suite").expect("a new suite");
    let first = text(&path).lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("# yaml-language-server: $schema=../schema/suite.schema.json"));
    load_suite(&path).expect("a suite that loads");
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = new_suite(folder.path(), "my-suite").expect("a new suite");
    fs::write(&path, "mine").expect("a file");
    let again = new_suite(folder.path(), "my-suite").expect_err("it is there");
    assert!(again.problems()[0].message().contains("already"));
    assert_eq!(text(&path), "mine");
    assert!(new_suite(folder.path(), "My Suite").is_err());
    assert!(new_suite(folder.path(), "../escape").is_err());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// Adds a task to a suite of this text.
fn added(before: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    fs::write(&path, before).expect("a file");
    let result = new_task(&path, "extra").map_err(|error| {
        assert_eq!(text(&path), before, "a refused task changes nothing");
        rendered(&error).replace(folder.path().to_str().expect("a UTF-8 path"), "FOLDER")
    });
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left behind");
    let suite = result?;
    assert_eq!(suite.families().last().map(|family| family.id.clone()).as_deref(), Some("extra"));
    assert_eq!(load_suite(&path).expect("it loads").families(), suite.families());
    Ok(text(&path))
}

const TASK: &str = "id: one
    instruction: Do it.
    env: { terminal: {} }
    checks: [{ file_absent: { path: a } }]";

#[test]
fn a_task_goes_to_the_end_of_the_list() {
    let at_the_end = format!("format: 1\nsuite: s\ntasks: # these\n  - {TASK}   # kept");
    let before_other_keys = format!(
        "tasks:\n  - {TASK}\n\n  # About the task above.\n\n# About the suite.\nsuite: s\nformat: 1\n"
    );
    let unindented = format!("format: 1\nsuite: s\ntasks:\n- {}\n", TASK.replace("\n    ", "\n  "));
    for (name, before) in
        [("end", at_the_end), ("before_other_keys", before_other_keys), ("unindented", unindented)]
    {
        let after = added(&before).expect(name);
        let kept: Vec<&str> = before.lines().filter(|line| !line.is_empty()).collect();
        let mut lines = after.lines();
        assert!(kept.iter().all(|line| lines.any(|other| other == *line)), "{name} keeps its lines in order");
        insta::assert_snapshot!(format!("new_task_{name}"), after);
    }
}

#[test]
fn a_task_is_refused_where_it_cannot_be_added() {
    let inline = "format: 1
suite: s
tasks: [{ id: one, instruction: Do it., env: { terminal: {} }, checks: [{ file_absent: { path: a } }] }]
";
    let taken = format!("format: 1\nsuite: s\ntasks:\n  - {}\n", TASK.replace("one", "extra"));
    let broken = "format: 1\nsuite: s\ntasks: []\n";
    let errors = [inline, &taken, broken].map(|before| added(before).expect_err("refused"));
    insta::assert_snapshot!("new_task_refused", errors.join("\n"));
}
