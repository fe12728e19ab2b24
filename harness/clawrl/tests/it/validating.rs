//! `clawrl validate`.

use crate::place::{Place, SMALL};

#[test]
fn a_good_suite_is_valid_and_its_mistakes_are_counted() {
    let place = Place::new();
    let said = place.clawrl(&["validate", "small", "--mistakes"]).ends(0);
    insta::assert_snapshot!(said.out, @"
    family       mistakes  pass
    small/copy          8     0
    small/note          4     0
    small/write         4     0
    0 of 16 mistakes pass (0.0 %)
    12 of 12 tasks are valid
    ");
    assert!(!place.results().exists(), "validation records nothing");
}

#[test]
fn a_broken_oracle_and_a_task_that_asks_for_nothing_are_caught() {
    let place = Place::new();
    let broken = SMALL
        .replace(
            "oracle: { commands: [\"cp in.txt out.txt\"] }",
            "oracle: { commands: [\"cp in.txt uot.txt\"] }",
        )
        .replace("expected: \"first\\n{{ word }}\\n\"", "expected: \"first\\n\"")
        .replace("    oracle: { commands: [\"echo {{ word }} > out.txt\"] }\n", "");
    place.suite("small", &broken);
    let said = place.clawrl(&["validate", "small", "--filter", "*#0", "--quiet"]).ends(3);
    insta::assert_snapshot!(said.out);
    let json = place.clawrl(&["validate", "small", "--json", "--quiet"]).ends(3).json();
    assert_eq!((&json["tasks"], &json["valid"]), (&12.into(), &4.into()));
    assert_eq!(json["invalid"].as_array().unwrap().len(), 12);
    assert_eq!(json["without_oracle"].as_array().unwrap().len(), 4);
}

#[test]
fn a_new_suite_with_a_new_task_is_valid() {
    let place = Place::new();
    let written = place.clawrl(&["new", "suite", "served", "--env", "http"]).ends(0);
    assert_eq!(written.out, "tasks/served/suite.yaml\ntasks/served/server.py\n");
    assert!(written.err.contains("start `python3 tasks/served/server.py 9000`"), "{}", written.err);
    let written = place.clawrl(&["new", "suite", "fresh"]).ends(0);
    assert_eq!(written.out, "tasks/fresh/suite.yaml\n");
    place.clawrl(&["new", "task", "fresh", "another"]).ends(0);
    let said = place.clawrl(&["validate", "fresh", "--quiet"]).ends(0);
    assert!(said.out.contains("tasks are valid"), "{}", said.out);
    for env in ["toolcall", "process"] {
        place.clawrl(&["new", "suite", env, "--env", env]).ends(0);
        place.clawrl(&["new", "task", env, "another"]).ends(0);
        let said = place.clawrl(&["validate", env, "--mistakes", "--quiet"]).ends(0);
        assert!(said.out.contains("\n0 of ") && said.out.contains("tasks are valid"), "{}", said.out);
    }
    place.clawrl(&["env", "check", "toolcall"]).ends(0);
    assert!(place.clawrl(&["new", "suite", "fresh"]).ends(2).err.contains("already"));
    assert!(place.clawrl(&["new", "task", "fresh", "another"]).ends(2).err.contains("already"));
}

mod browser_tests {
    use super::*;

    mod slow {
        use super::*;

        #[test]
        fn a_new_suite_of_pages_with_a_new_task_is_valid() {
            let place = Place::new();
            let written = place.clawrl(&["new", "suite", "paged", "--env", "gui"]).ends(0);
            let files = ["suite.yaml", "site/index.html", "site/prices.html"];
            assert_eq!(written.out, files.map(|file| format!("tasks/paged/{file}\n")).concat());
            let written = place.clawrl(&["new", "task", "paged", "another"]).ends(0);
            assert!(written.err.contains("a copy of `price`"), "{}", written.err);
            let arguments = ["--mistakes", "--limit", "4", "--quiet", "--concurrency", "2"];
            let said = place.clawrl(&[&["validate", "paged"][..], &arguments].concat()).ends(0);
            assert!(
                said.out.contains("\n0 of ") && said.out.contains("4 of 4 tasks are valid"),
                "{}",
                said.out
            );
            place.clawrl(&["env", "check", "paged"]).ends(0);
        }
    }
}
