//! `clawrl import`, and imported suites in real sandboxes on an unpacked image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::place::Place;

/// Programs that the examples need besides those of every unpacked image.
const PROGRAMS: [&str; 10] =
    ["wc", "tr", "head", "tail", "grep", "sort", "touch", "cmp", "timeout", "base64"];

fn examples(path: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../import/tests/examples").join(path);
    folder.display().to_string()
}

/// A test folder with a world-readable image.
fn place_with_image() -> Place {
    let place = Place::new();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let image = place.path().join("image");
    fs::create_dir(&image).unwrap();
    clawrl_testkit::unpack_image(&image, &PROGRAMS).unwrap();
    place
}

/// Checks that for every task the no-op fails and the oracle passes.
fn check(place: &Place, suite: &str, tasks: usize) {
    let said = place.clawrl(&["validate", suite, "--json", "--quiet"]).ends(0).json();
    assert_eq!((&said["tasks"], &said["valid"]), (&tasks.into(), &tasks.into()), "{said}");
}

/// The image has no Python, which the sixth example needs.
#[test]
fn tasks_of_harbor_are_valid_in_sandboxes() {
    let place = place_with_image();
    let all = examples("harbor");
    let mut arguments =
        vec!["import", "harbor", &all, "--output", "tasks/theirs", "--rootfs", "debian:12=image"];
    for task in ["copy", "run", "environment", "reward-json", "separate"] {
        arguments.extend(["--task", task]);
    }
    let said = place.clawrl(&arguments).ends(0);
    assert_eq!(said.out, "tasks/theirs/suite.yaml\n");
    assert!(said.err.contains("copy: line 7: `task.keywords` is left out"), "{}", said.err);
    check(&place, "theirs", 5);
}

#[test]
fn tasks_of_terminal_bench_are_valid_in_sandboxes() {
    let place = place_with_image();
    let all = examples("terminal-bench");
    let arguments = ["import", "terminal-bench", &all, "--output", "tasks/theirs", "--rootfs", "image"];
    place.clawrl(&arguments).ends(0);
    check(&place, "theirs", 3);
}

/// The source distribution of a test package.
fn distribution(place: &Place, name: &str) {
    let packed = Command::new("tar")
        .args(["-czf", name, "-C", &examples("swe-synth"), "pen-1.0"])
        .current_dir(place.path())
        .status()
        .unwrap();
    assert!(packed.success());
}

/// The package's tests and those of its tasks run in sandboxes.
#[test]
fn faults_in_a_package_become_valid_tasks() {
    let place = Place::new();
    distribution(&place, "pen-1.0.tar.gz");
    let arguments = ["import", "swe-synth", "--sdist", "pen-1.0.tar.gz", "--limit", "5", "--seed", "3"];
    let made = |to: &str| {
        let said = place.clawrl(&[&arguments[..], &["--output", to]].concat()).ends(0);
        assert!(said.err.contains("pen 1.0: 10 tests pass"), "{}", said.err);
        fs::read_to_string(place.path().join(to).join("suite.yaml")).unwrap()
    };
    let suite = made("tasks/pens");
    // Equal except for the name.
    assert_eq!(made("tasks/same").replace("suite: same", "suite: pens"), suite);
    let repo = place.path().join("tasks/pens/fixtures/pen/repo");
    assert!(repo.join("LICENSE").is_file() && !repo.join("docs").exists());
    check(&place, "pens", 5);
}

#[test]
fn packages_whose_tests_do_not_pass_are_refused() {
    let place = Place::new();
    distribution(&place, "pen-1.0.tar.gz");
    let refused = |more: &[&str], said: &str| {
        let arguments = [&["import", "swe-synth", "--output", "tasks/pens"], more].concat();
        let ended = place.clawrl(&arguments).ends(2);
        assert!(ended.err.contains(said), "{}", ended.err);
        assert!(!place.path().join("tasks/pens").exists());
    };
    let archive = ["--sdist", "pen-1.0.tar.gz"];
    refused(&[&archive[..], &["--test", "false"]].concat(), "the tests of `pen` do not pass (exit code 1)");
    refused(&[&archive[..], &["--test", "true"]].concat(), "the tests of `pen` print no passing test");
    refused(&["--sdist", "none.tar.gz"], "`none.tar.gz` is not available");
    refused(&["--package", "pen"], "NAME==VERSION");
}

#[test]
fn what_cannot_be_imported_is_refused() {
    let place = Place::new();
    let said = place.clawrl(&["import", "harbor", "tasks/small", "--output", "tasks/theirs"]).ends(2);
    assert!(said.err.contains("holds no task folders"), "{}", said.err);
    assert!(!place.path().join("tasks/theirs").exists());
}
