//! Errors before anything starts.

use std::fs;

use crate::place::Place;

/// Standard error of a command that ends with this code.
fn check(place: &Place, arguments: &[&str], code: i32) -> String {
    let said = place.clawrl(arguments).ends(code);
    assert_eq!(said.out, "");
    place.settled(&said.err)
}

#[test]
fn suites_that_are_not_there() {
    let place = Place::new();
    insta::assert_snapshot!(check(&place, &["run", "smal"], 2), @"
    error: there is no suite at `tasks/smal`
      help: did you mean `tasks/small`?
    ");
    insta::assert_snapshot!(check(&place, &["run", "elsewhere/suite.yaml"], 2), @"
    error: there is no suite at `elsewhere/suite.yaml`
      help: name a suite.yaml or its folder; `clawrl new suite NAME` writes a new one
    ");
    insta::assert_snapshot!(check(&place, &["run"], 2), @"
    error: no suite is named
      help: name a suite.yaml, its folder, or the name of a folder under ./tasks; `clawrl new suite my-suite` writes one
    ");
}

#[test]
fn arguments_that_make_no_sense() {
    let place = Place::new();
    insta::assert_snapshot!(check(&place, &["run", "small", "--policy", "orcale"], 2), @"
    error: invalid value 'orcale' for '--policy <POLICY>': there is no policy `orcale`; write noop, oracle, demonstrator, demonstrator:PERCENT, random:FILE, replay:RUN, torch:DIR, torch:DIR@TEMPERATURE, openai:MODEL, anthropic:MODEL, remote:FILE, cassette:FILE or agent:FILE

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(check(&place, &["run", "small", "--policy", "random:none.txt"], 2), @"
    error: the actions of --policy random cannot be used: none.txt: No such file or directory (os error 2)
      help: give a text file with one action a line, such as `ls -l` or `submit`
    ");
    insta::assert_snapshot!(check(&place, &["run", "small", "--name", "a/b"], 2), @"
    error: invalid value 'a/b' for '--name <RUN>': a run's name has 1 to 64 letters, digits, dashes, underscores and dots, and does not start with a dot

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(check(&place, &["run", "small", "--filter", "wrte"], 2));
    let many = ["run", "small", "--repeats", "8000", "--concurrency", "96000"];
    assert!(check(&place, &many, 2).contains("96000"), "more than any machine holds");
    assert!(check(&place, &["run", "--retry-faulted", "small", "--seed", "1"], 2).contains("--resume"));
    assert!(check(&place, &["run", "--resume", "x", "--seed", "3"], 2).contains("cannot be used with"));
    let judge = ["run", "--resume", "x", "--judge", "openai:m"];
    assert!(check(&place, &judge, 2).contains("cannot be used with"));
    assert!(check(&place, &["valdate"], 2).contains("validate"));
    for command in ["run", "train"] {
        let refused = check(&place, &[command, "small", "--profile"], 2);
        assert!(refused.contains("unexpected argument '--profile'"), "{refused}");
        assert!(refused.contains("harness/docs/profile.md"), "{refused}");
    }
    assert!(!place.results().exists(), "what is refused leaves nothing");
}

#[test]
fn broken_suites_point_at_the_place() {
    let place = Place::new();
    place.suite("small", &crate::place::SMALL.replace("instruction: Copy", "instrction: Copy"));
    insta::assert_snapshot!(check(&place, &["plan", "small"], 2));
}

#[test]
fn runs_that_are_not_there_or_there_already() {
    let place = Place::new();
    insta::assert_snapshot!(check(&place, &["run", "--resume", "nobody"], 8), @"
    error: run nobody not found in [folder]/results/runs
      help: `clawrl ls` lists all runs
    ");
    check(&place, &["show", "nobody"], 8);
    check(&place, &["clean", "nobody", "--yes"], 8);
    check(&place, &["run", "small", "--policy", "replay:nobody"], 8);
    place.clawrl(&["run", "small", "--name", "one", "--limit", "3", "--quiet"]).ends(0);
    insta::assert_snapshot!(check(&place, &["run", "small", "--name", "one"], 8), @"
    error: run one exists already
      help: choose another name, or resume it with `clawrl run --resume one`
    ");
    insta::assert_snapshot!(check(&place, &["show", "one", "--attempt", "s99.0"], 2), @"error: run one has no record of attempt s99.0");
}

#[test]
fn records_that_were_tampered_with() {
    let place = Place::new();
    let run = |name: &str| place.clawrl(&["run", "small", "--name", name, "--limit", "3", "--quiet"]).ends(0);
    let file = |name: &str, file: &str| place.results().join("runs").join(name).join(file);
    run("plan");
    let plan = fs::read_to_string(file("plan", "plan.json")).unwrap();
    fs::write(file("plan", "plan.json"), plan.replace("\"seed\":0", "\"seed\":1")).unwrap();
    assert!(check(&place, &["run", "--resume", "plan"], 7).contains("was changed after the run started"));
    run("middle");
    let journal = fs::read_to_string(file("middle", "journal.jsonl")).unwrap();
    fs::write(file("middle", "journal.jsonl"), journal.replacen("leased", "laesed", 1)).unwrap();
    assert!(check(&place, &["run", "--resume", "middle"], 7).contains("is damaged at line"));
    assert!(place.clawrl(&["ls"]).ends(0).out.contains("damaged"));
    // Damaged runs can be deleted.
    place.clawrl(&["clean", "middle", "--yes"]).ends(0);
}

#[test]
fn a_torn_tail_is_cut_and_told() {
    let place = Place::new();
    place.clawrl(&["run", "small", "--name", "torn", "--quiet"]).ends(0);
    let journal = place.results().join("runs/torn/journal.jsonl");
    let text = fs::read(&journal).unwrap();
    // The end is lost, and the last line is incomplete.
    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let resolved = lines.iter().rposition(|line| line.windows(8).any(|part| part == b"resolved")).unwrap();
    let mut kept = lines[..resolved].concat();
    kept.extend_from_slice(&lines[resolved][..30]);
    // A missing tail after a sync mark would count as damage, so the marks are removed too.
    let synced = lines[..resolved].iter().position(|line| line.ends_with(b"\"synced\"}\n")).unwrap();
    assert!(synced < resolved);
    fs::write(&journal, kept).unwrap();
    let said = place.clawrl(&["run", "--resume", "torn"]).ends(0);
    assert!(said.err.contains("the last 30 bytes of journal.jsonl were torn and are cut"), "{}", said.err);
    assert_eq!(place.run("torn").summary().total.passed, 12);
}
