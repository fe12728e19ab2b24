//! Baselines and planned repeats.

use std::fs;

use super::ground::{Ground, STEADY};

#[test]
fn only_accepting_changes_a_baseline() {
    let ground = Ground::accepted("oracle");
    let place = &ground.place;
    let read = || fs::read_to_string(ground.baseline("steady")).unwrap();
    let before = read();
    ground.judge("steady", &["--policy", "noop"]).ends(10);
    assert_eq!(read(), before);
    place.clawrl(&["run", "small", "--name", "new", "--policy", "demonstrator:90", "--quiet"]).ends(0);
    let said = place.clawrl(&["ci", "accept", "gates/steady.yaml", "--run", "new"]).ends(0);
    assert!(said.out.starts_with("run new is the baseline of steady, in place of run 2"), "{}", said.out);
    assert!(read() != before && read().contains("\"run\": \"new\""));
    ground.judge("steady", &["--policy", "demonstrator:90"]).ends(0);
}

#[test]
fn what_is_not_whole_or_of_another_gate_is_not_accepted() {
    let ground = Ground::accepted("oracle");
    let place = &ground.place;
    let before = fs::read_to_string(ground.baseline("steady")).unwrap();
    let check = |run: &str, expected: &str| {
        let said = place.clawrl(&["ci", "accept", "gates/steady.yaml", "--run", run]).ends(2);
        assert!(said.err.contains(expected), "{expected}:\n{}", said.err);
    };
    place.clawrl(&["run", "small", "--name", "part", "--quiet", "--limit", "5"]).ends(0);
    check("part", "run part is none of the gate `steady`: 7 tasks are gone");
    place.clawrl(&["run", "small", "--name", "half", "--quiet"]).ends(0);
    let journal = place.run("half").dir().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.split_inclusive('\n').next().unwrap()).unwrap();
    check("half", "run half was cut short: 12 of its attempts are unfinished");
    assert_eq!(fs::read_to_string(ground.baseline("steady")).unwrap(), before);
}

#[test]
fn a_plan_says_what_a_gate_takes() {
    let ground = Ground::accepted("oracle");
    let plan =
        |more: &[&str]| ground.place.clawrl(&[&["ci", "plan", "gates/auto.yaml"], more].concat()).ends(0);
    ground.gate(
        "auto",
        "demonstrator:80",
        "interim_analyses: 2\nmetrics: [{ metric: pass_rate, min_effect: 0.4 }]\n",
    );
    let said = plan(&[]);
    assert!(said.out.contains("repeats   8 of each task, 96 attempts"), "{}", said.out);
    assert!(said.out.contains("there is no baseline at"), "{}", said.out);
    ground.accept("auto");
    let planned = plan(&["--json"]).json()[0].clone();
    let repeats = planned["repeats"].as_u64().unwrap();
    assert_eq!(planned["needed"], repeats, "{planned:#}");
    assert_eq!(planned["attempts"], 12 * repeats);
    assert!(planned["sees"].as_f64().unwrap() <= 0.4, "{planned:#}");
    let found = ground.assessment("auto", &["--policy", "oracle"], 0);
    assert!(found["budget"]["attempts"].as_u64().unwrap() <= 12 * repeats);
    ground.gate("auto", "demonstrator:80", "metrics: [{ metric: pass_rate, min_effect: 0.001 }]\n");
    let said = plan(&[]);
    assert!(said.out.contains("no number of repeats of 12 tasks detects a drop of 0.001"), "{}", said.out);
    let said = ground.judge("auto", &[]).ends(2);
    assert!(said.err.contains("`repeats: auto` of gates/auto.yaml has no answer"), "{}", said.err);
    let steady = ground.place.clawrl(&["ci", "plan", "gates/steady.yaml"]).ends(0);
    assert!(
        steady.out.contains("the policy is deterministic") && STEADY.contains("deterministic"),
        "{}",
        steady.out
    );
}
