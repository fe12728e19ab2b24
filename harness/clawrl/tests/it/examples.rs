//! The example programs of the library, which `cargo test` builds beside this test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs an example in an empty folder.
fn run(example: &str, arguments: &[PathBuf]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_clawrl")).with_file_name("examples").join(example);
    let output = Command::new(&program).args(arguments).current_dir(&folder).output();
    let output = output.unwrap_or_else(|error| panic!("failed to start {}: {error}", program.display()));
    (folder, output)
}

fn check(example: &str, expected: &str) -> tempfile::TempDir {
    let (folder, output) = run(example, &[]);
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains(expected), "{example}: {printed}{errors}");
    folder
}

#[test]
fn single_turn_is_solved_and_reported() {
    let folder = check("reverse", "3 of 3 passed");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("reverse"), "{page}");
}

#[test]
fn multi_turn_is_played_by_policy_value() {
    check("guess", "3 of 3 passed");
}

#[test]
fn tool_env_is_solved() {
    check("calculator", "2 of 2 passed");
}

#[test]
fn jsonl_suite_has_named_run() {
    let folder = check("jsonl", "3 of 6 passed");
    assert!(folder.path().join("my-results/runs/colours/summary.json").is_file());
}

#[test]
fn yaml_suite_needs_spawner_beside_program() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/toolcall-basics");
    let (_folder, output) = run("suites", &[suite]);
    let errors = String::from_utf8_lossy(&output.stderr);
    // The spawner is one folder up.
    assert!(output.status.success() || errors.contains("clawrl-sbx"), "{errors}");
}

/// A run of a suite of rows cannot be resumed by the command line, which does not have the environment.
#[test]
fn command_line_refuses_environment_of_program() {
    let folder = check("reverse", "3 of 3 passed");
    let output = Command::new(env!("CARGO_BIN_EXE_clawrl"))
        .args(["run", "results/suites/reverse/suite.yaml", "--policy", "noop"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("has an environment of the program"), "{errors}");
}

#[cfg(feature = "torch")]
mod training {
    use super::check;

    #[test]
    fn policy_is_trained_on_environment_of_program() {
        let folder = check("train", "2 updates");
        assert!(folder.path().join("report.html").is_file());
    }
}
