//! Errors before a training starts.

use std::fs;

use super::ground::{REPRODUCIBLE, SIGNS, ground};
use crate::place::Place;

/// Standard error of a command that ends with this code.
#[track_caller]
fn check(place: &Place, arguments: &[&str], code: i32) -> String {
    let said = place.clawrl(arguments).ends(code);
    assert_eq!(said.out, "");
    place.settled(&said.err)
}

/// A minimal training: one group of two, no warm start.
const NOTHING: &str = r#"
format: 1
train: nothing
policy: { preset: tiny }
suites: [ { path: tasks/signs } ]
rl: { updates: 1, batch_groups: 1, group_size: 2, resample_budget: 1, sampling: { max_new_tokens: 2 } }
evaluation: { every_updates: 0, max_tasks: 1 }
"#;

#[test]
fn train_files_with_problems_point_at_the_places() {
    let wrong = REPRODUCIBLE
        .replace("reproducible: true", "reproducible: true\nengine: { device: cuda }")
        .replace("minibatches: 1", "minibatches: 0")
        .replace("path: tasks/signs", "path: tasks/sings");
    let place = ground(&wrong);
    insta::assert_snapshot!(check(&place, &["train", "train.yaml"], 2));
    assert!(!place.results().exists(), "what is refused leaves nothing");
}

#[test]
fn what_is_not_there_or_makes_no_sense() {
    let place =
        ground(&REPRODUCIBLE.replace("evaluation: { every_updates: 0 }", "evaluation: { min_tasks: 512 }"));
    assert!(check(&place, &["train"], 2).contains("<TRAIN.yaml>"));
    check(&place, &["train", "nothing.yaml"], 2);
    check(&place, &["train", "--resume", "nobody"], 8);
    let few = check(&place, &["train", "train.yaml"], 2);
    assert!(few.contains("held-out"), "{few}");
    assert!(!place.results().join("runs").exists(), "what is refused leaves nothing");
}

#[test]
fn trainings_and_other_runs_are_not_mixed_up() {
    let place = ground(NOTHING);
    place.clawrl(&["run", "small", "--name", "run", "--limit", "1", "--quiet"]).ends(0);
    insta::assert_snapshot!(check(&place, &["train", "--resume", "run"], 2), @"
    error: run run is no training
      help: `clawrl run --resume` goes on with other runs
    ");
    place.clawrl(&["train", "train.yaml", "--name", "taken", "--quiet"]).ends(0);
    insta::assert_snapshot!(check(&place, &["run", "--resume", "taken"], 2), @"
    error: run taken is a training
      help: go on with it: clawrl train --resume taken
    ");
    insta::assert_snapshot!(check(&place, &["train", "train.yaml", "--name", "taken"], 8), @"
    error: run taken exists already
      help: choose another name with --name, or go on with it: clawrl train --resume taken
    ");
    // Its remaining parts would be mistaken for those of another training.
    place.clawrl(&["clean", "taken", "--yes"]).ends(0);
    insta::assert_snapshot!(check(&place, &["train", "train.yaml", "--name", "taken"], 8), @"
    error: run taken-eval-000000 is there already, of an older training of this name
      help: choose another name with --name, or delete it: clawrl clean taken-eval-000000
    ");
}

#[test]
fn a_train_file_that_was_changed_on_the_way_is_refused() {
    let place = ground(NOTHING);
    place.clawrl(&["train", "train.yaml", "--name", "changed", "--quiet"]).ends(0);
    let kept = place.results().join("runs/changed/train.json");
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replace("\"updates\": 1", "\"updates\": 2")).unwrap();
    let said = check(&place, &["train", "--resume", "changed"], 7);
    assert!(said.contains("was changed after the run started"), "{said}");
}

#[test]
fn a_suite_that_was_changed_on_the_way_is_refused() {
    let place = ground(NOTHING);
    place.clawrl(&["train", "train.yaml", "--name", "changed", "--quiet"]).ends(0);
    place.suite("signs", &SIGNS.replace("Raise the sign", "Hoist the sign"));
    insta::assert_snapshot!(check(&place, &["train", "--resume", "changed"], 2), @"
    error: suite signs has changed since the training began: [folder]/tasks/signs/suite.yaml
      help: restore it, or train anew under another name
    ");
}

#[test]
fn without_what_trains_the_rest_works() {
    let place = ground(NOTHING);
    // A copy of only one program, as in an incomplete installation.
    let place = {
        fs::copy(place.program(), place.path().join("clawrl")).unwrap();
        place
    };
    insta::assert_snapshot!(check(&place, &["train", "train.yaml"], 6), @"
    error: clawrl-torch, which trains, is not beside this program
      help: `make demo` builds it; by hand: ci/setup.sh run cargo build --release -p clawrl -p clawrl-sandbox --features clawrl/torch
    ");
    check(&place, &["policy", "init", "--preset", "tiny", "--out", "new", "small"], 6);
    place.clawrl(&["plan", "small"]).ends(0);
}

#[test]
fn without_libtorch_it_says_what_is_missing() {
    let place = ground(NOTHING);
    let libraries = env!("CLAWRL_LIBTORCH_FOLDER");
    let said = place.worse(&["--tmpfs", libraries], &["train", "train.yaml"]).ends(6);
    insta::assert_snapshot!(said.err.replace(libraries, "[libraries]"), @"
    error: libtorch is not where clawrl-torch was linked to it: [libraries]/libtorch_cpu.so is missing
      help: `ci/setup.sh` installs it again; `clawrl doctor` looks at everything
    ");
    assert!(!place.results().exists());
    let doctor = place.worse(&["--tmpfs", libraries], &["doctor"]);
    assert!(doctor.out.contains("so there is no training"), "{}", doctor.out);
}

/// One user's build, run by another: libtorch is in an unreadable home folder.
#[test]
fn a_libtorch_that_may_not_be_read_is_not_called_missing() {
    let place = ground(NOTHING);
    let libraries = env!("CLAWRL_LIBTORCH_FOLDER");
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("libtorch_cpu.so"), "").unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    // Without capabilities, root is subject to file permissions.
    let worse = ["--cap-drop", "ALL", "--bind", closed.to_str().unwrap(), libraries];
    let said = place.worse(&worse, &["train", "train.yaml"]).ends(6);
    assert!(said.err.contains("libtorch may not be read by this user"), "{}", said.err);
    let doctor = place.worse(&worse, &["doctor"]);
    assert!(doctor.out.contains("may not be read by this user"), "{}", doctor.out);
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// A preloaded library reports another libtorch version.
#[test]
fn another_libtorch_is_refused_before_anything_is_written() {
    let place = ground(NOTHING);
    fs::write(
        place.path().join("other.c"),
        "unsigned long long aoti_torch_abi_version(void) { return 0x020a000000000000ULL; }\n",
    )
    .unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "libother.so", "other.c"])
        .current_dir(place.path())
        .status()
        .unwrap();
    assert!(compiled.success());
    let library = place.path().join("libother.so");
    for arguments in [
        &["train", "train.yaml"][..],
        &["policy", "init", "--preset", "tiny", "--out", "new", "small"],
        &["run", "small", "--policy", "torch:model", "--limit", "1"],
    ] {
        let said = place.command(arguments).env("LD_PRELOAD", &library).output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(6), "{arguments:?}: {err}");
        assert!(err.contains("libtorch 2.10.0 is loaded") && err.contains("built for 2.11.0"), "{err}");
    }
    assert!(!place.results().exists() && !place.path().join("new").exists());
}
