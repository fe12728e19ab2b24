//! New suites and tasks.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_config::{
    NewTask, PlanOptions, StarterEnv, json_schema, load_suite, new_suite, new_task, resolve_plan,
};
use clawrl_core::PolicySpec;

use crate::diagnostics::rendered;
use crate::plans::options;

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a suite")
}

/// Writes a new suite; the path of its file.
fn written(folder: &Path, env: StarterEnv) -> PathBuf {
    new_suite(folder, "my-suite", env).expect("a new suite").swap_remove(0)
}

const ENVS: [(&str, StarterEnv, usize, &[&str]); 6] = [
    ("terminal", StarterEnv::Terminal, 9, &[]),
    ("toolcall", StarterEnv::Toolcall, 9, &[]),
    ("gui", StarterEnv::Gui, 9, &["site/index.html", "site/prices.html"]),
    ("process", StarterEnv::Process, 8, &["env/env.py"]),
    ("http", StarterEnv::Http, 8, &["server.py"]),
    ("openenv", StarterEnv::Openenv, 3, &[]),
];

#[test]
fn a_new_suite_loads_and_has_what_it_shows() {
    for (name, env, tasks, beside) in ENVS {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = new_suite(folder.path(), "my-suite", env).expect("a new suite");
        let expected = ["suite.yaml"].iter().chain(beside);
        let expected: Vec<_> = expected.map(|file| folder.path().join("my-suite").join(file)).collect();
        assert_eq!(paths, expected);
        let suite = load_suite(&paths[0]).expect("a suite that loads");
        assert!(suite.warnings().is_empty(), "{name}");
        assert!(suite.families().iter().all(|family| family.has_oracle && family.mistakes > 0), "{name}");
        let policy = PolicySpec::Demonstrator { oracle_percent: 50 };
        let plan = resolve_plan(&[suite], &PlanOptions { policy, ..options() }).expect("a plan");
        assert_eq!(plan.tasks.len(), tasks, "{name}");
        assert!(plan.tasks.iter().all(|task| task.env.kind() == name));
    }
}

#[test]
fn the_schema_is_named_where_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("schema")).expect("a folder");
    fs::write(folder.path().join("schema/suite.schema.json"), json_schema().to_string()).expect("a file");
    let path = written(folder.path(), StarterEnv::Terminal);
    let first = text(&path).lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("# yaml-language-server: $schema=../schema/suite.schema.json"));
    load_suite(&path).expect("a suite that loads");
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path(), StarterEnv::Terminal);
    fs::write(&path, "mine").expect("a file");
    let again = new_suite(folder.path(), "my-suite", StarterEnv::Process).expect_err("it is there");
    assert!(again.problems()[0].message().contains("already"));
    assert_eq!(text(&path), "mine");
    for name in ["My Suite", "../escape"] {
        assert!(new_suite(folder.path(), name, StarterEnv::Terminal).is_err());
    }
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
    let NewTask { suite, .. } = result?;
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
fn a_new_task_has_the_environment_of_the_last_one() {
    for (name, env, ..) in ENVS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = written(folder.path(), env);
        let before = text(&path);
        let NewTask { suite, copied } = new_task(&path, "extra").expect(name);
        let families = suite.families();
        let [.., last, new] = families.as_slice() else { panic!("{name}: too few") };
        let is_copied = !matches!(env, StarterEnv::Terminal | StarterEnv::Toolcall);
        assert_eq!(copied, is_copied.then(|| last.id.clone()), "{name}");
        assert_eq!((new.id.as_str(), new.has_oracle), ("extra", true));
        let plan = resolve_plan(&[suite], &options()).expect("a plan");
        assert_eq!(plan.tasks.last().expect("a task").env.kind(), name);
        let added = text(&path);
        let added = added.strip_prefix(before.trim_end()).expect("what was there stays");
        if is_copied {
            let entry = &before[before.rfind("  - id:").expect("an entry")..];
            assert_eq!(added.trim_start_matches('\n'), entry.replacen(&last.id, "extra", 1), "{name}");
        }
    }
}

/// An id may be anything but the first key, and quoted.
#[test]
fn a_copy_has_its_own_id() {
    let before = "format: 1
suite: s
tasks:
  - instruction: Do it.
    id: \"one\"  # this one
    env: { http: { base_url: \"http://localhost:1\" } }
    # And that is all.
";
    let after = added(before).expect("a copy");
    let copy = after.strip_prefix(before).expect("what was there stays");
    let (_, entry) = before.split_once("tasks:\n").expect("its tasks");
    assert_eq!(copy, format!("\n{}", entry.replace("\"one\"", "extra")));
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
