//! Runs that end early.

use rustix::process::Signal;

use super::ground::Ground;

const LOOKS: &str = "repeats: 6\ninterim_analyses: 3\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\n";

#[test]
fn a_look_ends_a_run_and_its_record_says_so() {
    let ground = Ground::accepted("oracle");
    ground.gate("looks", "demonstrator:95", LOOKS);
    ground.accept("looks");
    let found = ground.assessment("looks", &["--policy", "noop"], 10);
    let looks = found["looks"].as_array().unwrap();
    assert_eq!(looks.len(), 1, "{found:#}");
    assert_eq!(
        (&looks[0]["repeats"], &looks[0]["said"]),
        (&2.into(), &"stops the run: the candidate is worse".into())
    );
    // Two repeats of twelve tasks, and no retries.
    assert_eq!(found["budget"]["attempts"], 24);
    let run = found["run"].as_str().unwrap();
    assert_eq!(ground.place.run(run).summary().end, Some(clawrl_record::RunEnd::DemandClosed));
    let again = ground.assessment("looks", &["--run", run], 10);
    assert_eq!(again, found, "the same record, the same assessment");
    let page = ground.place.run(run).dir().join("gate/report.html");
    assert!(page.is_file(), "{}", page.display());
}

#[test]
fn a_run_that_is_no_worse_ends_early_too() {
    let ground = Ground::accepted("oracle");
    ground.gate("looks", "demonstrator:80", LOOKS);
    ground.accept("looks");
    let found = ground.assessment("looks", &["--policy", "oracle"], 0);
    let last = found["looks"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["said"], "stops the run: a worsening by min_effect is ruled out", "{found:#}");
    assert!(found["budget"]["attempts"].as_u64().unwrap() < 72, "{found:#}");
}

#[test]
fn a_budget_ends_a_run_without_a_verdict() {
    let ground = Ground::accepted("oracle");
    ground.gate("budget", "oracle", "repeats: 4\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\n");
    ground.accept("budget");
    let cheap = "repeats: 4\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\nbudget: { attempts: 30 }\n";
    ground.gate("budget", "oracle", cheap);
    let said = ground.judge("budget", &[]).ends(11);
    let expected = "gate budget: inconclusive\n  inconclusive: the budget ended the run with 30 of 48 slots closed: 30 of 30 attempts used.\n";
    assert!(said.out.starts_with(expected), "{}", said.out);
    let (_, run) = said.out.split_once("\nrun       ").unwrap();
    let run = run.split(' ').next().unwrap();
    // Earlier attempts count, so that nothing more runs.
    let again = ground.judge("budget", &["--resume", run]).ends(11);
    assert!(again.out.starts_with(expected), "{}", again.out);
    // An unused budget has no effect.
    ground.gate("budget", "oracle", &cheap.replace("30", "48"));
    ground.judge("budget", &["--resume", run]).ends(0);
    assert_eq!(ground.place.run(run).summary().end, Some(clawrl_record::RunEnd::Completed));
    let nothing = ground.place.clawrl(&["ci", "gates/budget.yaml", "--resume", run]).ends(0);
    assert!(nothing.err.contains("has nothing left to do"), "{}", nothing.err);
    ground.judge("budget", &[]).ends(0);
    ground.gate("budget", "oracle", &cheap.replace("attempts: 30", "minutes: 0.000001"));
    let said = ground.judge("budget", &["--concurrency", "1"]).ends(11);
    assert!(
        said.out.contains("inconclusive: the budget ended the run") && said.out.contains("minutes"),
        "{}",
        said.out
    );
}

#[test]
fn a_person_who_ends_a_run_gets_no_verdict_and_goes_on() {
    let ground = Ground::accepted("oracle");
    ground.gate("long", "oracle", "repeats: 8\nmetrics: [{ metric: pass_rate, min_effect: 0.3 }]\n");
    ground.accept("long");
    let mut live = ground.place.start(&["ci", "gates/long.yaml", "--concurrency", "1"]);
    live.hears("/96 closed");
    live.signal(Signal::INT);
    let said = live.ended().ends(5);
    assert!(said.err.contains("nothing is judged") && said.out.is_empty(), "{}", said.err);
    let (_, run) = said.err.split_once("clawrl ci --resume ").unwrap();
    let run = run.split(['`', ' ']).next().unwrap();
    let early = ground.judge("long", &["--run", run]).ends(11);
    assert!(early.out.contains("the run was interrupted"), "{}", early.out);
    ground.judge("long", &["--resume", run]).ends(0);
    ground.judge("long", &["--run", run]).ends(0);
}

#[test]
fn a_run_that_was_killed_goes_on_to_the_same_look() {
    let ground = Ground::accepted("oracle");
    ground.gate("looks", "demonstrator:80", LOOKS);
    ground.accept("looks");
    let whole = ground.assessment("looks", &["--policy", "demonstrator:75"], 10);
    assert!(
        whole["looks"].as_array().unwrap().len() > 1,
        "the test is about what comes behind a look: {whole:#}"
    );
    let run = whole["run"].as_str().unwrap();
    let dir = ground.place.run(run).dir().to_owned();
    let (journal, trajectories) = (dir.join("journal.jsonl"), dir.join("trajectories.zst"));
    let text = std::fs::read_to_string(&journal).unwrap();
    let bytes = std::fs::read(&trajectories).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // In the first batch, in a later one, and just before the end is journaled.
    let end = lines.iter().position(|line| line.contains("\"finished\":{\"end\"")).unwrap();
    for kept in [end / 5, end * 4 / 5, end] {
        std::fs::write(&journal, lines[..kept].concat()).unwrap();
        // The journal vouches for these trajectories; the previous resume has written others.
        std::fs::write(&trajectories, &bytes).unwrap();
        let cut = ground.judge("looks", &["--run", run]);
        assert!(cut.out.contains("was cut short"), "{}", cut.out);
        let again = ground.assessment("looks", &["--resume", run], 10);
        let same = |assessment: &serde_json::Value| {
            [&assessment["looks"], &assessment["metrics"], &assessment["tasks"]].map(Clone::clone)
        };
        assert_eq!(same(&again), same(&whole), "{kept} of {} lines", lines.len());
    }
}
