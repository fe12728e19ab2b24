//! Trainings that abort with a reason.

use std::process::Command;

use rustix::process::Signal;

use super::ground::{
    LUCKY, REPRODUCIBLE, SIGNS, checkpoint, figures, ground, lucky, sampled, trained, weights,
};

/// A policy from scratch, two attempts per group.
const BARE: &str = r#"
format: 1
train: bare
policy: { preset: tiny }
suites: [ { path: tasks/signs } ]
rl: { updates: 40, batch_groups: 1, group_size: 2, resample_budget: 1, sampling: { max_new_tokens: 3 } }
evaluation: { every_updates: 0, max_tasks: 2 }
limits: { concurrency: 4 }
"#;

/// Standard error of a training whose tasks all end with the same reward.
fn constant(check: &str) -> String {
    let place = ground(BARE);
    let suite = SIGNS
        .replace("file_equals: { path: sign, expected: \"\" }", check)
        .replace("file_absent: { path: sign }", check);
    place.suite("signs", &suite);
    let said = place.clawrl(&["train", "train.yaml", "--name", "bare", "--quiet"]).ends(9);
    assert_eq!(said.out, "");
    // The training was aborted long before its end.
    assert!(place.run("bare").updates().unwrap().len() < 10);
    // Groups sampled ahead vary, so their number is replaced.
    regex::Regex::new(r"of their \d+ groups, \d+")
        .unwrap()
        .replace_all(&place.settled(&said.err), "of their [n] groups, [n]")
        .into_owned()
}

#[test]
fn tasks_that_nobody_solves_end_a_training() {
    insta::assert_snapshot!(constant("file_equals: { path: never, expected: never }"));
}

#[test]
fn tasks_that_everybody_solves_end_a_training() {
    insta::assert_snapshot!(constant("file_absent: { path: never }"));
}

#[test]
fn a_disk_that_is_full_at_a_checkpoint_leaves_the_older_ones_intact() {
    let place = ground(REPRODUCIBLE);
    let undisturbed = trained(&place, "undisturbed");
    let mut live = place.start(&["train", "train.yaml", "--name", "full"]);
    live.hears("update    2/4");
    live.hears("update    3/4");
    live.signal(Signal::KILL);
    live.ended();
    let before = weights(&place, "full", 2);
    // A limit on file sizes simulates a full disk: weights exceed it, journals do not.
    let script = format!("ulimit -f 900; exec {} train --resume full", place.program().display());
    let output = Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{err}");
    assert!(err.contains("older checkpoints are intact") && err.contains("clawrl train --resume"), "{err}");
    assert!(!checkpoint(&place, "full", 4).exists());
    assert_eq!(weights(&place, "full", 2), before);

    let said = place.clawrl(&["train", "--resume", "full", "--json"]).ends(0);
    assert_eq!(figures(&said), figures(&undisturbed));
    assert_eq!(weights(&place, "full", 4), weights(&place, "undisturbed", 4));
    assert_eq!(sampled(&place, "full"), sampled(&place, "undisturbed"));
    // Partial files are removed.
    let left = std::fs::read_dir(place.run("full").checkpoints_dir()).unwrap().flatten();
    let unfinished = left.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count();
    assert_eq!(unfinished, 0);
}

/// An untrained policy repeats itself.
#[test]
fn a_policy_that_collapses_halts_the_training_with_a_checkpoint() {
    let guarded = |updates: u32| {
        let guards = format!("guards: {{ repetition: 0, updates: {updates} }}, updates: 6,");
        LUCKY.replace("updates: 4,", &guards).replace("max_new_tokens: 3", "max_new_tokens: 24")
    };
    let place = lucky(&guarded(2), "");
    let halted = |arguments: &[&str], updates: u64| {
        let said = place.clawrl(arguments).ends(9);
        for part in ["the policy collapses: ", "of what replies say repeats", "clawrl policy versions"] {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
        assert_eq!(place.run("dull").updates().unwrap().last().unwrap().update, updates);
        assert!(checkpoint(&place, "dull", updates).exists());
    };
    halted(&["train", "train.yaml", "--name", "dull"], 2);
    halted(&["train", "--resume", "dull"], 4);
    std::fs::write(place.path().join("train.yaml"), guarded(0)).unwrap();
    place.clawrl(&["train", "train.yaml", "--name", "unwatched", "--quiet"]).ends(0);
}
