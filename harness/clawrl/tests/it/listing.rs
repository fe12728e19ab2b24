//! `clawrl ls`, `show` and `clean`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::place::{Place, Said};

#[test]
fn runs_are_listed_shown_and_deleted() {
    let place = Place::new();
    assert_eq!(place.settled(&place.clawrl(&["ls"]).ends(0).out), "no runs in [folder]/results\n");
    place.clawrl(&["run", "small", "--name", "a", "--quiet", "--policy", "noop"]).ends(0);
    place.clawrl(&["run", "small", "--name", "b", "--quiet", "--limit", "3"]).ends(0);
    let listed = place.clawrl(&["ls", "--json"]).ends(0).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
    let text = place.clawrl(&["ls"]).ends(0).out;
    let columns: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(
        [&columns[..1], &columns[3..columns.len() - 2]].concat(),
        ["a", "finished", "noop", "small", "12/12", "0", "0"]
    );
    assert!(columns[columns.len() - 2].parse::<u32>().is_ok_and(|size| size > 0), "{columns:?}");

    let failed = place.clawrl(&["show", "a", "--failed", "--json"]).ends(0).json();
    assert_eq!(failed.as_array().unwrap().len(), 12);
    let of_slot = place.clawrl(&["show", "b", "--slot", "s1"]).ends(0).out;
    assert!(of_slot.contains("s1.0") && of_slot.contains("passed"), "{of_slot}");
    assert!(place.clawrl(&["show", "b"]).ends(0).out.contains("run b, policy oracle, completed"));

    let cast = place.path().join("b.cast");
    let shown = place.clawrl(&["show", "b", "--attempt", "s0.0", "--cast", cast.to_str().unwrap()]).ends(0);
    insta::assert_snapshot!(shown.out);
    assert!(std::fs::read_to_string(cast).unwrap().starts_with("{\"version\":2"));
    let record = place.clawrl(&["show", "b", "--attempt", "s0.0", "--json"]).ends(0).json();
    assert_eq!(record["outcome"]["finished"]["grade"]["passed"], true);

    let said = place.clawrl(&["clean", "a"]).ends(2);
    assert!(said.err.contains("1 run would be deleted, and nobody is there to ask"), "{}", said.err);
    assert_eq!(place.clawrl(&["clean", "--older-than", "1h", "--yes"]).ends(0).out, "0 runs deleted\n");
    assert_eq!(place.clawrl(&["clean", "a", "--yes"]).ends(0).out, "1 run deleted\n");
    let cleaned = place.clawrl(&["clean", "--all", "--yes", "--json"]).ends(0).json();
    assert_eq!(cleaned["runs"], serde_json::json!(["b"]));
    assert!(place.clawrl(&["clean", "--orphans"]).ends(0).out.contains("processes ended"));
    assert!(place.clawrl(&["clean"]).ends(2).err.contains("nothing was said"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let mut child = place.command(&["help", "run"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Shows the model if there is one, and hides runs that belong to a training.
#[test]
fn runs_of_a_training_are_left_out_and_models_are_named() {
    let place = Place::new();
    let run = |name: &str, policy: &str| {
        place.clawrl(&["run", "small", "--name", name, "--policy", policy, "--limit", "3", "--quiet"]).ends(0)
    };
    for name in ["mine", "mine-demonstrations", "mine-eval-000050", "mine-evaluated"] {
        run(name, "oracle");
    }
    run("part", "demonstrator:70");
    // A train file marks a training.
    fs::write(place.results().join("runs/mine/train.json"), "{}\n").unwrap();
    let text = place.clawrl(&["ls"]).ends(0).out;
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["part", "mine-evaluated", "mine", "2"], "{text}");
    assert!(text.contains("2 runs of trainings are left out") && text.contains("demonstrator:70"), "{text}");
    assert!(place.clawrl(&["ls", "--all"]).ends(0).out.contains("mine-eval-000050"));
    let listed = place.clawrl(&["ls", "--json"]).ends(0).json();
    let part_of = |name: &str| {
        let run = listed.as_array().unwrap().iter().find(|run| run["run"] == name).unwrap();
        assert!(run["size_bytes"].as_u64().unwrap() > 1_000, "{run}");
        run["part_of"].as_str().map(str::to_owned)
    };
    assert_eq!(part_of("mine-eval-000050").as_deref(), Some("mine"));
    assert_eq!((part_of("mine"), part_of("mine-evaluated")), (None, None));
}

/// A run that is unreadable because it belongs to another user still exists: its name stays taken and `clean` skips it.
#[test]
fn a_run_that_may_not_be_read_is_told_and_not_called_absent() {
    let place = Place::of_normal_user();
    for name in ["closed", "open"] {
        place.clawrl(&["run", "small", "--name", name, "--limit", "3", "--quiet"]).ends(0);
    }
    let folder = place.results().join("runs/closed");
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(0), Some(0)).unwrap();
    }
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o700);
    if !rustix::process::geteuid().is_root() {
        mode(0);
    }
    let told = |said: Said| {
        let words = said.out.clone() + &said.err;
        assert!(words.contains("runs/closed") && words.contains("is not readable for this user"), "{words}");
        assert!(!words.contains("not found") && !words.contains("damaged"), "{words}");
    };
    told(place.clawrl(&["show", "closed"]).ends(7));
    told(place.clawrl(&["report", "closed"]).ends(7));
    told(place.clawrl(&["run", "--resume", "closed"]).ends(7));
    told(place.clawrl(&["run", "small", "--policy", "replay:closed"]).ends(7));
    let listed = place.clawrl(&["ls"]).ends(0);
    assert!(
        listed.out.lines().any(|line| line.starts_with("closed ") && line.contains("unreadable")),
        "{}",
        listed.out
    );
    told(listed);
    let taken = place.clawrl(&["run", "small", "--name", "closed"]).ends(8);
    assert!(taken.err.contains("run closed exists already"), "{}", taken.err);
    assert_eq!(place.clawrl(&["clean", "--all", "--yes"]).ends(0).out, "1 run deleted\n");
    assert!(folder.exists());
    // An unreadable folder of runs is not treated as empty.
    let runs = place.results().join("runs");
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o000)).unwrap();
    let said = place.clawrl(&["ls"]).ends(7);
    assert!(said.err.contains("runs is not readable for this user"), "{}", said.err);
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o755)).unwrap();
    mode(0o755);
}

/// An unreadable suite folder is not reported as lacking suite.yaml.
#[test]
fn a_suite_that_may_not_be_read_is_told() {
    let place = Place::of_normal_user();
    let folder = place.path().join("tasks/small");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let said = place.clawrl(&["plan", "small"]).ends(2);
    assert!(said.err.contains("`tasks/small` cannot be read"), "{}", said.err);
    // An unreadable task folder among several is not skipped.
    for (format, file) in [("harbor", "task.toml"), ("terminal-bench", "task.yaml")] {
        for path in ["tasks", "tasks/small"] {
            let said = place.clawrl(&["import", format, path, "--output", "theirs"]).ends(2);
            assert!(said.err.contains(&format!("`tasks/small/{file}`: cannot be read")), "{}", said.err);
        }
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Plans are JSON, so paths must be UTF-8.
#[test]
fn paths_that_are_not_utf_8_are_refused_before_anything_is_made() {
    let place = Place::new();
    let strange = OsStr::from_bytes(b"s\xe9");
    let folder = place.path().join(strange);
    fs::create_dir(&folder).unwrap();
    fs::copy(place.path().join("tasks/small/suite.yaml"), folder.join("suite.yaml")).unwrap();
    let refused = |mut command: std::process::Command, part: &str| {
        let said = Said::of(&command.output().unwrap()).ends(2);
        assert!(said.err.contains(r"s\xe9") && said.err.contains("is not UTF-8"), "{}", said.err);
        assert!(said.err.contains(part), "{}", said.err);
        assert!(!place.results().exists() && !folder.join("results").exists());
    };
    let with = |arguments: &[&str]| place.command(arguments);
    let mut suite = with(&["run"]);
    suite.arg(strange);
    refused(suite, "rename");
    // The current folder counts as well, also through a link.
    let mut here = with(&["run", "suite.yaml"]);
    here.current_dir(&folder);
    // Results would go below it, which is checked first.
    refused(here, "choose another folder");
    std::os::unix::fs::symlink(strange, place.path().join("linked")).unwrap();
    refused(with(&["run", "linked"]), "rename");
    for results in ["--results", "CLAWRL_RESULTS"] {
        let mut elsewhere = with(&["run", "small"]);
        match results {
            "--results" => elsewhere.arg("--results").arg(&folder),
            variable => elsewhere.env(variable, &folder),
        };
        refused(elsewhere, "choose another folder for results with --results or CLAWRL_RESULTS");
    }
    let mut policy = with(&["run", "../tasks/small", "--policy", "torch:model", "--results", "/nonexistent"]);
    policy.current_dir(&folder);
    refused(policy, "rename");
}
