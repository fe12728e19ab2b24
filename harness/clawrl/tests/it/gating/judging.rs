//! Gates that pass and fail.

use std::fs;

use super::ground::{Ground, STEADY};

#[test]
fn an_unchanged_policy_passes_each_time_and_a_worse_one_fails_by_name() {
    let ground = Ground::accepted("demonstrator:90");
    for _ in 0..3 {
        let said = ground.judge("steady", &[]).ends(0);
        assert!(said.out.starts_with("gate steady: pass\n"), "{}", said.out);
        assert!(said.out.contains("all 12 tasks have the baseline's value"), "{}", said.out);
    }
    let said = ground.judge("steady", &["--policy", "demonstrator:10"]).ends(10);
    assert!(said.out.starts_with("gate steady: fail\n  pass_rate: fail. "), "{}", said.out);
    assert!(said.out.contains("  worse:\n    small/"), "{}", said.out);
    assert!(said.out.contains("1 of 1  ->  0 of 1  broke"), "{}", said.out);
    let (_, show) = said.out.split_once("look at the first: clawrl ").unwrap();
    let show: Vec<&str> = show.lines().next().unwrap().split(' ').collect();
    assert!(ground.place.clawrl(&show).ends(0).out.contains("failed"), "{show:?}");
}

#[test]
fn nothing_is_worse_than_everything() {
    let ground = Ground::accepted("oracle");
    let found = ground.assessment("steady", &["--policy", "noop"], 10);
    assert_eq!(found["outcome"], "fail");
    let tasks = found["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["change"] == "broke" && task["sample"].is_u64()), "{found:#}");
    assert_eq!((tasks.len(), found["lost"].as_array().unwrap().len()), (12, 0));
}

#[test]
fn a_task_that_must_pass_fails_a_gate_that_passes() {
    let ground = Ground::accepted("demonstrator:60");
    let failed = ground.assessment("steady", &[], 0);
    let failed = failed["tasks"].as_array().unwrap().iter().find(|task| task["candidate"]["passes"] == 0);
    let failed = failed.expect("a demonstrator that is sometimes wrong")["task"].as_str().unwrap().to_owned();
    ground.gate("steady", "demonstrator:60", &format!("{STEADY}must_pass: ['{failed}']\n"));
    let said = ground.judge("steady", &[]).ends(10);
    let expected = format!("Task {failed} must pass every time, but passed in 0 of 1 attempts.");
    assert!(said.out.contains(&expected) && said.out.contains("pass_rate: pass."), "{}", said.out);
    ground.gate("steady", "demonstrator:60", &format!("{STEADY}must_pass: ['small/forgotten']\n"));
    let said = ground.judge("steady", &[]).ends(2);
    assert!(
        said.err.contains("no task of the gate `steady` matches `must_pass: small/forgotten`"),
        "{}",
        said.err
    );
}

#[test]
fn a_run_that_is_there_is_judged_like_one_that_is_made() {
    let ground = Ground::accepted("oracle");
    let place = &ground.place;
    place.clawrl(&["run", "small", "--name", "bad", "--policy", "noop", "--quiet"]).ends(0);
    let found = ground.assessment("steady", &["--run", "bad", "--out", "said"], 10);
    assert_eq!((&found["run"], &found["outcome"]), (&"bad".into(), &"fail".into()));
    let written = fs::read_to_string(place.path().join("said/assessments.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), serde_json::json!([found]));
    let text = fs::read_to_string(place.path().join("said/assessment.txt")).unwrap();
    assert!(text.starts_with("gate steady: fail\n"), "{text}");
}

#[test]
fn the_worst_of_several_gates_decides() {
    let ground = Ground::accepted("oracle");
    ground.gate("strict", "oracle", "repeats: 1\nmetrics: [{ metric: turns, min_effect: 0.01 }]\n");
    ground.accept("strict");
    let both = |more: &[&str]| {
        let gates = ["ci", "gates/steady.yaml", "gates/strict.yaml", "--quiet"];
        ground.place.clawrl(&[&gates, more].concat())
    };
    // A metric without variance cannot be tested unless the policy is declared deterministic.
    let said = both(&[]).ends(11);
    assert!(
        said.out.contains("gate steady: pass") && said.out.contains("gate strict: inconclusive"),
        "{}",
        said.out
    );
    both(&["--policy", "noop", "--out", "said"]).ends(10);
    let written = |name: &str| fs::read_to_string(ground.place.path().join("said").join(name)).unwrap();
    for (name, parts) in [
        ("summary.md", ["<code>steady</code>: fail", "<code>strict</code>: "]),
        ("junit.xml", ["<testsuite name=\"steady\"", "<failure type=\"worse\""]),
        ("annotations.txt", ["::error title=steady%3A fail::", "::error title=steady / small/"]),
        ("report.html", ["<h1>Regression gates: <b class=\"failed\">fail</b></h1>", "id=\"g1\""]),
        ("assessments.json", ["\"gate\": \"steady\"", "\"gate\": \"strict\""]),
    ] {
        let text = written(name);
        parts.iter().for_each(|part| assert!(text.contains(part), "no {part} in {name}:\n{text}"));
    }
    assert!(both(&["--baseline", "x"]).ends(2).err.contains("go with one gate"));
}

#[test]
fn broken_tasks_are_named_where_each_is_judged() {
    let ground = Ground::accepted("oracle");
    ground.gate("each", "oracle", "repeats: 6\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\n");
    ground.accept("each");
    let said = ground.judge("each", &[]).ends(0);
    assert!(said.out.contains("each_task: pass. None of 12 tasks broke significantly."), "{}", said.out);
    let planned = ground.place.clawrl(&["ci", "plan", "gates/each.yaml"]).ends(0);
    assert!(
        planned.out.contains("each task broke where it falls from 6 of 6 passes to 0"),
        "{}",
        planned.out
    );
    let said = ground.judge("each", &["--policy", "noop"]).ends(10);
    assert!(said.out.contains(" of 12 tasks broke: small/"), "{}", said.out);
    assert!(said.out.contains("(6 of 6 passed before, 0 of 6 now); and 7 more."), "{}", said.out);
    ground.gate(
        "each",
        "oracle",
        "repeats: 6\neach_task: false\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\n",
    );
    let said = ground.judge("each", &["--policy", "noop"]).ends(10);
    assert!(!said.out.contains("each_task"), "{}", said.out);
}
