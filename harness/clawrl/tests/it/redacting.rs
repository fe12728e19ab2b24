//! `--redact-env`: environment secrets that appear in an attempt.

use crate::place::{Place, Said};

const VALUE: &str = "tok_live_1234567890";

/// The task assembles the value, so that the plan does not contain it.
const LEAKY: &str = r#"
format: 1
suite: leaky
defaults:
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, idle_millis: 300 } }
tasks:
  - id: print
    instruction: Show the token.
    checks: [ { file_equals: { path: out.txt, expected: "nothing\n" } } ]
    oracle: { commands: ["printf 'tok_%s\\n' live_1234567890 | tee out.txt"] }
  - id: break
    instruction: Never begins.
    env: { terminal: { setup: ["printf 'tok_%s\\n' live_1234567890; false"] } }
    checks: [ { file_absent: { path: none.txt } } ]
    oracle: { commands: ["true"] }
"#;

fn clawrl(place: &Place, value: Option<&str>, arguments: &[&str]) -> Said {
    let mut command = place.command(arguments);
    if let Some(value) = value {
        command.env("LEAKY_TOKEN", value);
    }
    Said::of(&command.output().unwrap())
}

/// All records of attempts as text.
fn recorded(place: &Place, run: &str) -> String {
    let run = place.run(run);
    let records = run.trajectories().unwrap();
    records.map(|record| serde_json::to_string(&record.unwrap()).unwrap() + "\n").collect()
}

#[test]
fn a_secret_is_in_no_record() {
    let place = Place::new();
    place.suite("leaky", LEAKY);
    let run = ["run", "leaky", "--quiet", "--max-retries", "0"];
    // Without the option, nothing is redacted.
    clawrl(&place, Some(VALUE), &[&run[..], &["--name", "open"]].concat()).ends(4);
    assert!(recorded(&place, "open").contains(VALUE));

    let redacted = [&run[..], &["--name", "closed", "--redact-env", "LEAKY_TOKEN"]].concat();
    clawrl(&place, Some(VALUE), &redacted).ends(4);
    let text = recorded(&place, "closed");
    assert!(!text.contains(VALUE), "{text}");
    // In an observation, a check's finding, a fault, and both terminal recordings.
    assert_eq!(text.matches("[redacted LEAKY_TOKEN]").count(), 5, "{text}");
    assert_eq!(place.run("closed").lock_file().unwrap().redacted, ["LEAKY_TOKEN"]);

    // A resumed run redacts the same variables as before and fails without their values.
    let on = ["run", "--resume", "closed", "--retry-faulted", "--quiet"];
    let said = clawrl(&place, None, &on).ends(2);
    assert!(said.err.contains("LEAKY_TOKEN, which is to be redacted, is not set"), "{}", said.err);
    clawrl(&place, Some(VALUE), &on).ends(4);
    let text = recorded(&place, "closed");
    assert!(!text.contains(VALUE), "{text}");
    assert_eq!(text.matches("[redacted LEAKY_TOKEN]").count(), 7, "{text}");

    // Only an observation was redacted: the replies are complete and can be replayed.
    clawrl(&place, None, &["run", "--policy", "replay:closed", "--filter", "print", "leaky", "--quiet"])
        .ends(0);
}

#[test]
fn what_cannot_be_redacted_is_refused_by_name() {
    let place = Place::new();
    place.suite("leaky", LEAKY);
    let check = |value: Option<&str>, name: &str, expected: &str| {
        let said = clawrl(&place, value, &["run", "leaky", "--name", "r", "--redact-env", name]).ends(2);
        assert!(said.err.contains(expected), "{}", said.err);
        assert!(value.is_none_or(|value| !said.err.contains(value)), "{}", said.err);
        assert!(!place.results().join("runs/r").exists());
    };
    check(None, "LEAKY_TOKEN", "LEAKY_TOKEN, which is to be redacted, is not set");
    check(Some("four"), "LEAKY_TOKEN", "the value of LEAKY_TOKEN has 4 bytes");
    check(Some("live_1234567890"), "LEAKY_TOKEN", "the plan of this run holds the value of LEAKY_TOKEN");
    check(None, "tok_live-1", "give the name of an environment variable");
}

/// Number of occurrences of the value in the run's folder, without marks.
fn leaks(place: &Place, run: &str) -> usize {
    recorded(place, run).matches(VALUE).count()
}

#[test]
fn what_a_resume_redacts_every_later_resume_redacts() {
    let place = Place::new();
    place.suite("leaky", LEAKY);
    let on = ["run", "--resume", "r", "--retry-faulted", "--quiet"];
    let start = ["run", "leaky", "--name", "r", "--quiet", "--max-retries", "0"];
    clawrl(&place, Some(VALUE), &start).ends(4);
    let before = leaks(&place, "r");
    assert!(before > 0);

    let redacted = [&on[..], &["--redact-env", "LEAKY_TOKEN"]].concat();
    let said = clawrl(&place, Some(VALUE), &redacted).ends(4);
    let warned = "LEAKY_TOKEN is redacted from now on; what run r recorded before stays as it is";
    assert!(said.err.contains(warned), "{}", said.err);
    assert_eq!(place.run("r").lock_file().unwrap().redacted, ["LEAKY_TOKEN"]);
    assert_eq!(leaks(&place, "r"), before);

    // The variable is redacted without being named again, and no warning appears.
    let said = clawrl(&place, Some(VALUE), &on).ends(4);
    assert!(!said.err.contains("from now on"), "{}", said.err);
    assert_eq!(leaks(&place, "r"), before);
    let marks = recorded(&place, "r").matches("[redacted LEAKY_TOKEN]").count();
    assert_eq!(marks, 4, "two in each attempt of two resumes");
    let said = clawrl(&place, None, &on).ends(2);
    assert!(said.err.contains("LEAKY_TOKEN, which is to be redacted, is not set"), "{}", said.err);
}

#[test]
fn a_resume_without_anything_to_do_notes_what_later_ones_redact() {
    let place = Place::new();
    place.suite("leaky", LEAKY);
    clawrl(&place, Some(VALUE), &["run", "leaky", "--name", "r", "--quiet", "--max-retries", "0"]).ends(4);
    let before = leaks(&place, "r");
    let idle = ["run", "--resume", "r", "--redact-env", "LEAKY_TOKEN"];
    let said = clawrl(&place, Some(VALUE), &idle).ends(4);
    assert!(said.err.contains("nothing left to do"), "{}", said.err);
    clawrl(&place, Some(VALUE), &["run", "--resume", "r", "--retry-faulted", "--quiet"]).ends(4);
    assert_eq!(leaks(&place, "r"), before);
}

#[test]
fn a_value_in_the_plan_is_refused_at_a_resume_too() {
    let place = Place::new();
    place.suite("leaky", LEAKY);
    clawrl(&place, None, &["run", "leaky", "--name", "r", "--quiet", "--max-retries", "0"]).ends(4);
    let on = ["run", "--resume", "r", "--retry-faulted", "--redact-env", "LEAKY_TOKEN"];
    let said = clawrl(&place, Some("live_1234567890"), &on).ends(2);
    assert!(said.err.contains("the plan of this run holds the value of LEAKY_TOKEN"), "{}", said.err);
    assert!(said.err.contains("start a new run"), "{}", said.err);
    assert!(place.run("r").lock_file().unwrap().redacted.is_empty());
}
