//! Cassettes: replies recorded by request and replayed without a model.

use std::fs;

use clawrl_core::AttemptRecord;

use crate::model_server::{Manner, ModelServer};
use crate::place::{Place, SMALL, Said};
use crate::replaying::comparable;

/// Arguments of a run of `small` with different attempts at each task.
const FIRST: [&str; 5] = ["run", "small", "--group-size", "2", "--quiet"];

fn records(place: &Place, run: &str) -> Vec<AttemptRecord> {
    let run = place.run(run);
    let mut records: Vec<AttemptRecord> =
        run.trajectories().unwrap().map(|record| comparable(record.unwrap())).collect();
    records.sort_by_key(|record| record.attempt);
    records
}

/// Records a run of the demonstrator in a cassette.
fn recorded() -> Place {
    let place = Place::new();
    place.clawrl(&[&FIRST[..], &["--policy", "demonstrator:50", "--name", "first"]].concat()).ends(0);
    let said = place.clawrl(&["cassette", "record", "first", "-o", "first.cassette"]).ends(0);
    assert!(said.out.contains("replies to 12 tasks, of run first, policy demonstrator:50"), "{}", said.out);
    place
}

fn played(place: &Place, name: &str, more: &[&str]) -> Said {
    let cassette = ["--policy", "cassette:first.cassette", "--name", name];
    place.clawrl(&[&FIRST[..], &cassette, more].concat())
}

#[test]
fn a_cassette_repeats_every_trajectory_however_many_run_at_once() {
    let place = recorded();
    let expected = records(&place, "first");
    assert_eq!(expected.len(), 24);
    let replies: usize = expected.iter().map(|record| record.trajectory.turns.len()).sum();
    for (name, concurrency) in [("one", "1"), ("many", "24")] {
        let said = played(&place, name, &["--concurrency", concurrency]).ends(0);
        assert_eq!(records(&place, name), expected);
        let note = format!("policy      {replies} of {replies} recorded replies were played, 0 unused");
        assert!(said.out.contains(&note), "{}", said.out);
    }
    // A subset of tasks sends the same requests; unused recordings are reported.
    let part = played(&place, "part", &["--filter", "copy*", "--json"]).ends(0);
    let notes = part.json()["policy_notes"].to_string();
    assert!(notes.contains("recorded replies were played") && !notes.contains(" 0 unused"), "{notes}");
    // A cassette of the replay differs only in the run's name.
    let shown = |file: &str| {
        let mut shown = place.clawrl(&["cassette", "show", file, "--json"]).ends(0).json();
        shown["run"] = serde_json::Value::Null;
        shown["sha256"] = serde_json::Value::Null;
        shown
    };
    place.clawrl(&["cassette", "record", "many", "-o", "many.cassette"]).ends(0);
    assert_eq!(shown("many.cassette"), shown("first.cassette"));
}

#[test]
fn a_change_of_what_is_shown_is_a_miss_that_says_what_changed() {
    let place = recorded();
    let check = |name: &str, from: &str, to: &str, more: &[&str], expected: &str| {
        assert!(SMALL.contains(from));
        place.suite("small", &SMALL.replace(from, to));
        let said = played(&place, name, more).ends(4);
        for part in ["policy/cassette-miss", "had no recorded reply, and no model was called", expected] {
            assert!(said.out.contains(part), "{part}: {}", said.out);
        }
        let total = place.run(name).summary().total.clone();
        assert!(total.faulted > 0 && total.finished + total.faulted == total.slots, "{total:?}");
    };
    let instruction = ("Write {{ word }} into out.txt.", "Put {{ word }} into out.txt.");
    check("prompt", instruction.0, instruction.1, &[], "message 1, of the user, was `Write");
    // The first request is equal, its observation differs.
    check(
        "shown",
        "\"first\\n\"",
        "\"fresh\\n\"",
        &["--filter", "note*"],
        "message 3, of the tool, was `first",
    );
    check("seed", "suite: small", "suite: small", &["--seed", "8"], "under another seed");
    // Settings that do not affect requests may change.
    place.suite("small", &SMALL.replace("weight: 3", "weight: 2").replace("pids: 32", "pids: 40"));
    played(&place, "unseen", &[]).ends(0);
}

#[test]
fn a_change_of_a_tool_is_a_miss_that_names_it() {
    const TOOLS: &str = r#"
format: 1
suite: tools
defaults: { action_format: tool_calls }
tasks:
  - id: price
    instruction: What does an apple cost?
    env: { toolcall: { tools: { price: { description: The price of a thing., table: { rows: { apple: "7" } } } } } }
    checks: [ { answer_number: { expected: 7 } } ]
    oracle: { actions: [{ call: { name: price, arguments: { key: apple } } }, { submit: "7" }] }
"#;
    let place = Place::new();
    place.suite("tools", TOOLS);
    place
        .clawrl(&["run", "tools", "--name", "first", "--quiet", "--record-cassette", "live.cassette"])
        .ends(0);
    // Recording during the run and afterwards gives equal cassettes.
    place.clawrl(&["cassette", "record", "first", "-o", "later.cassette"]).ends(0);
    let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert_eq!(bytes("live.cassette"), bytes("later.cassette"));
    let run = ["run", "tools", "--quiet", "--policy", "cassette:live.cassette"];
    place.clawrl(&run).ends(0);
    place.suite("tools", &TOOLS.replace("The price of a thing.", "What a thing costs."));
    let said = place.clawrl(&run).ends(4);
    let expected = "the description of the tool `price` was `The price of a thing.";
    assert!(said.out.contains(expected), "{}", said.out);
}

#[test]
fn a_model_behind_a_server_is_not_asked_again() {
    let place = Place::new();
    let server = ModelServer::start(Manner { tells_tokens: true, ..Manner::default() });
    let file = format!(
        "format: 1\nmodel: able\nbase_url: {}\nkey_env: none\nexact_tokens: vllm\ntools: text\nsampling: {{ temperature: 1 }}\nprices: {{ input: 1, output: 10 }}\n",
        server.base_url()
    );
    fs::write(place.path().join("policy.yaml"), file).unwrap();
    let write = ["run", "small", "--filter", "write*"];
    let first = ["--policy", "remote:policy.yaml", "--name", "first", "--record-cassette", "live.cassette"];
    let said = place.clawrl(&[&write[..], &first].concat()).ends(0);
    assert!(said.err.contains("cassette live.cassette: 8 replies to 4 tasks"), "{}", said.err);
    place.clawrl(&["cassette", "record", "first", "-o", "later.cassette"]).ends(0);
    let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert_eq!(bytes("live.cassette"), bytes("later.cassette"));
    let asked = server.replies();
    assert_eq!(asked, 8);
    drop(server);
    let again = ["--policy", "cassette:live.cassette", "--name", "again"];
    let said = place.clawrl(&[&write[..], &again].concat()).ends(0);
    assert!(said.err.contains("policy cassette:") && said.err.contains("of openai:able"), "{}", said.err);
    // Usage is that of the recording and is marked as such.
    let played = records(&place, "again");
    assert_eq!(played.len(), 4);
    for (old, new) in records(&place, "first").iter().zip(&played) {
        for (old, new) in old.trajectory.turns.iter().zip(&new.trajectory.turns) {
            assert_eq!((&old.reply, &old.tokens), (&new.reply, &new.tokens));
            let (old, new) = (old.usage.as_ref().unwrap(), new.usage.as_ref().unwrap());
            assert_eq!(old.cost_nano_usd, new.cost_nano_usd);
            assert_eq!(new.notes.last().unwrap(), "from-cassette");
        }
    }
    // The instructions for actions are part of the request although they are not in the suite.
    place.suite("small", &SMALL.replace("tasks:", "  action_format: hermes\ntasks:"));
    let said = place.clawrl(&[&write[..], &["--policy", "cassette:live.cassette"]].concat()).ends(4);
    assert!(said.out.contains("message 1, of the system, was"), "{}", said.out);
}

#[test]
fn files_that_are_no_cassettes_are_refused_before_anything_runs() {
    let place = recorded();
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let said = place.clawrl(arguments).ends(code);
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    };
    let policy = |file: &'static str| ["run", "small", "--quiet", "--policy", file];
    check(&policy("cassette:missing"), 2, "cannot read missing");
    check(&policy("cassette:tasks/small/suite.yaml"), 2, "is not a cassette");
    check(&policy("cassette:"), 2, "takes a recording");
    let whole = fs::read(place.path().join("first.cassette")).unwrap();
    fs::write(place.path().join("cut"), &whole[..whole.len() - 9]).unwrap();
    check(&policy("cassette:cut"), 2, "is damaged at line");
    check(&["cassette", "show", "cut"], 2, "is damaged at line");
    check(&["cassette", "record", "nobody", "-o", "x"], 8, "nobody");
    check(&["cassette", "record", "first", "-o", "first.cassette"], 2, "already exists");
    check(&["cassette", "record", "first", "-o", "missing/x"], 7, "cannot write missing/x");
    place.clawrl(&["cassette", "record", "first", "-o", "first.cassette", "--force"]).ends(0);
    assert_eq!(fs::read(place.path().join("first.cassette")).unwrap(), whole);
    let record = |file: &'static str| ["run", "small", "--quiet", "--record-cassette", file];
    check(&record("first.cassette"), 2, "already exists");
    check(&record("missing/x"), 2, "is no place for a cassette");
    let names: Vec<_> =
        fs::read_dir(place.results().join("runs")).unwrap().map(|run| run.unwrap().file_name()).collect();
    assert_eq!(names, ["first"]);
}

/// A plan identifies its cassette by its content.
#[test]
fn a_run_goes_on_with_the_cassette_that_it_began_with() {
    let place = recorded();
    // Faults leave slots to resume.
    played(&place, "faulty", &["--seed", "8"]).ends(4);
    let again = ["run", "--resume", "faulty", "--retry-faulted", "--quiet"];
    place.clawrl(&again).ends(4);
    place.clawrl(&["cassette", "record", "faulty", "-o", "none.cassette"]).ends(2);
    place.clawrl(&["run", "small", "--quiet", "--limit", "1", "--name", "other"]).ends(0);
    place.clawrl(&["cassette", "record", "other", "-o", "first.cassette", "--force"]).ends(0);
    let said = place.clawrl(&again).ends(2);
    assert!(said.err.contains("is not the one that the run began with"), "{}", said.err);
}

#[test]
fn secrets_are_in_no_cassette_and_do_not_keep_it_from_playing() {
    const LEAKY: &str = r#"
format: 1
suite: leaky
defaults:
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, idle_millis: 300 } }
tasks:
  - id: print
    instruction: Show the token.
    checks: [ { file_absent: { path: out.txt } } ]
    oracle: { commands: ["printf 'tok_%s\\n' live_1234567890", "true"] }
"#;
    let place = Place::new();
    place.suite("leaky", LEAKY);
    let run = |value: &str, more: &[&str]| {
        let arguments = [&["run", "leaky", "--quiet", "--redact-env", "LEAKY_TOKEN"], more].concat();
        Said::of(&place.command(&arguments).env("LEAKY_TOKEN", value).output().unwrap())
    };
    let value = "tok_live_1234567890";
    run(value, &["--name", "first", "--record-cassette", "live.cassette"]).ends(0);
    place.clawrl(&["cassette", "record", "first", "-o", "later.cassette"]).ends(0);
    let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert_eq!(bytes("live.cassette"), bytes("later.cassette"));
    let text = String::from_utf8(zstd::decode_all(bytes("live.cassette").as_slice()).unwrap()).unwrap();
    assert!(!text.contains(value) && text.contains("[redacted LEAKY_TOKEN]"), "{text}");
    run(value, &["--policy", "cassette:live.cassette"]).ends(0);
    // The observation contains another secret than the redacted one.
    let said = run("tok_live_0000000000", &["--policy", "cassette:live.cassette"]).ends(4);
    assert!(said.out.contains("[redacted LEAKY_TOKEN]"), "{}", said.out);
}
