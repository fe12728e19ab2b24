//! Runs from start to end.

use crate::place::Place;

#[test]
fn the_oracle_passes_and_the_summary_says_so() {
    let place = Place::new();
    let said = place.clawrl(&["run", "small", "--name", "one", "--group-size", "2"]).ends(0);
    insta::assert_snapshot!(place.settled(&said.out));
    assert!(said.err.starts_with("run one: 24 of 24 slots"), "{}", said.err);
    let run = place.run("one");
    assert_eq!(run.summary().total.passed, 24);
    let attempt = run.attempts().next().unwrap().attempt;
    assert!(run.cast(attempt).unwrap().unwrap().contains("echo river"));
    assert!(!run.metrics().unwrap().is_empty());
    assert!(run.lock_file().unwrap().host.contains_key("bubblewrap"));
}

#[test]
fn the_noop_passes_nothing_and_that_is_no_failure() {
    let place = Place::new();
    let arguments = ["run", "tasks/small/suite.yaml", "--policy", "noop", "--no-cast", "--json", "--quiet"];
    let said = place.clawrl(&arguments).ends(0);
    assert_eq!(said.err, "");
    let json = said.json();
    assert_eq!(
        (&json["summary"]["total"]["passed"], &json["summary"]["total"]["finished"]),
        (&0.into(), &12.into())
    );
    assert_eq!((&json["exit_code"], &json["leftovers"]), (&0.into(), &serde_json::json!([])));
    assert!(json["peak_environments"].as_u64().unwrap() >= 1);
    let name = json["summary"]["run"].as_str().unwrap();
    assert!(name.ends_with("-small"), "{name}");
    let run = place.run(name);
    let attempt = run.attempts().next().unwrap().attempt;
    assert_eq!(run.cast(attempt).unwrap(), None);
}

#[test]
fn unnamed_runs_of_one_second_have_names_of_their_own() {
    let place = Place::new();
    let live: Vec<_> =
        (0..3).map(|_| place.start(&["run", "small", "--limit", "3", "--json", "--quiet"])).collect();
    let ends: Vec<_> = live.into_iter().map(|live| live.ended()).collect();
    let names: std::collections::BTreeSet<String> = ends
        .iter()
        .filter(|said| said.code == Some(0))
        .map(|said| said.json()["summary"]["run"].to_string())
        .collect();
    assert_eq!(names.len(), 3, "{ends:?}");
}

#[test]
fn shares_limits_and_splits_reach_the_plan() {
    let place = Place::new();
    let plan = |arguments: &[&str]| {
        let all = [&["plan", "small", "--json"], arguments].concat();
        place.clawrl(&all).ends(0).json()
    };
    assert_eq!(plan(&[])["slots"], 12);
    assert_eq!(plan(&["--filter", "copy*", "--filter", "small/note#1"])["slots"], 5);
    assert_eq!(plan(&["--limit", "4", "--repeats", "3", "--group-size", "2"])["slots"], 24);
    assert_eq!(plan(&["--weight", "small=3"])["suites"][0]["weight"], 3);
    let (train, held_out) = (plan(&["--split", "train"]), plan(&["--split", "held-out"]));
    assert_eq!(train["slots"].as_u64().unwrap() + held_out["slots"].as_u64().unwrap(), 12);
    let text = place.clawrl(&["plan", "small", "--name", "one"]).ends(0).out;
    let of_every_machine = |line: &&str| !line.starts_with("room for");
    let lines: Vec<&str> = text.lines().filter(of_every_machine).collect();
    insta::assert_snapshot!(place.settled(&lines.join("\n")));
    assert!(!place.results().exists(), "a plan leaves nothing");
}

#[test]
fn faulted_slots_are_told_and_tried_again_on_demand() {
    let place = Place::new();
    let broken = crate::place::SMALL.replace(
        "{ in.txt: \"{{ word }}\\n\" } } }",
        "{ in.txt: \"{{ word }}\\n\" }, setup: [\"ls nothing\"] } }",
    );
    place.suite("small", &broken);
    let said = place.clawrl(&["run", "small", "--name", "f", "--quiet"]).ends(4);
    assert!(said.out.contains("env/setup-failed         4      4"), "{}", said.out);
    assert!(said.out.contains("try again   clawrl run --resume f --retry-faulted"), "{}", said.out);
    let listed = place.clawrl(&["show", "f", "--faulted"]).ends(0);
    assert!(listed.out.contains("cannot access 'nothing'"), "{}", listed.out);
    // A finished run is not changed without `--retry-faulted`.
    assert!(place.clawrl(&["run", "--resume", "f"]).ends(4).err.contains("nothing left to do"));
    assert_eq!(place.run("f").state().unwrap().resumes(), 0);
    place.clawrl(&["run", "--resume", "f", "--retry-faulted", "--quiet"]).ends(4);
    let retried = place.run("f").attempts().filter(|attempt| attempt.attempt.number == 1).count();
    assert_eq!(retried, 4);
}

#[test]
fn too_many_faults_end_a_run() {
    let place = Place::new();
    let broken = crate::place::SMALL.replace("idle_millis: 300", "idle_millis: 300, setup: [\"false\"]");
    place.suite("small", &broken);
    let arguments = ["run", "small", "--max-faults", "2", "--concurrency", "1", "--quiet", "--json"];
    let said = place.clawrl(&arguments).ends(4);
    let json = said.json();
    assert_eq!(
        (&json["summary"]["end"], &json["summary"]["total"]["faulted"]),
        (&"too_many_faults".into(), &2.into())
    );
    assert_eq!(json["open_slots"].as_array().unwrap().len(), 10);
    assert!(json["resume"].as_str().unwrap().starts_with("clawrl run --resume "));
}

#[test]
fn no_isolation_is_told_loudly() {
    let place = Place::new();
    let open =
        crate::place::SMALL.replace("idle_millis: 300", "idle_millis: 300, sandbox: none, network: host");
    place.suite("small", &open);
    let said = place.clawrl(&["run", "small", "--limit", "3", "--quiet"]).ends(0);
    assert!(said.err.contains("warning: tasks with `sandbox: none`: 3."), "{}", said.err);
    assert!(said.err.contains("warning: tasks with `network: host`: 3."), "{}", said.err);
}
