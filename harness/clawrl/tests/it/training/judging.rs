//! Trainings with judged turns, by models behind real servers and by rules.

use std::fs;
use std::time::{Duration, Instant};

use clawrl_record::{JudgedTurn, Metric};

use super::ground::{
    LUCKY, REPRODUCIBLE, assert_alike, figures, ground, killed, lucky, progress, trained, weights,
};
use crate::model_server::{Manner, ModelServer};
use crate::place::Place;

/// No attempt passes, so that outcomes give no signal.
const HOPELESS: &str = "        - unset SRANDOM; SRANDOM=1\n";

/// Two updates of a policy from scratch, with these keys of `rl`.
fn train(keys: &str) -> String {
    LUCKY.replace("rl: { updates: 4,", &format!("rl: {{ {keys}, updates: 2,"))
}

/// The training with a judge at this server.
fn place(server: &ModelServer, setup: &str, keys: &str) -> Place {
    let place = lucky(&train(keys), setup);
    let judge = format!("format: 1\nmodel: able\nbase_url: {}\nkey_env: none\n", server.base_url());
    fs::write(place.path().join("judge.yaml"), judge).unwrap();
    place
}

/// Sum of a figure over the updates.
fn sum(place: &Place, metric: Metric) -> f64 {
    let updates = place.run("judged").updates().unwrap();
    updates.iter().filter_map(|update| update.get(metric)).filter(|figure| figure.is_finite()).sum()
}

fn rows(place: &Place) -> Vec<JudgedTurn> {
    let run = place.run("judged");
    run.attempts().flat_map(|attempt| run.judgements(attempt.attempt).unwrap()).collect()
}

#[test]
fn verdicts_teach_where_outcomes_do_not_and_are_kept() {
    let server = ModelServer::start(Manner::default());
    let place = place(&server, HOPELESS, "process_weight: 0.5, judging: { judge: judge.yaml }");
    trained(&place, "judged");
    let counts = &progress(&place, "judged", 2)["counts"];
    assert_eq!((&counts["informative"], &counts["passed"]), (&4.into(), &0.into()));
    assert_ne!(weights(&place, "judged", 2), weights(&place, "judged", 0));
    assert!(sum(&place, Metric::TrainTurnsJudgedCount) >= 24.0);
    assert_eq!(sum(&place, Metric::TrainTurnsUnjudgedCount), 0.0);
    assert_eq!(sum(&place, Metric::TrainVotesMissingCount), 0.0);
    assert_eq!(sum(&place, Metric::TrainVoteAgreementRatio), 2.0, "all agree in both updates");
    let votes = 3.0 * sum(&place, Metric::TrainTurnsJudgedCount);
    assert!(sum(&place, Metric::TrainJudgeTokensCount) > votes, "a vote takes more than a token");

    let rows = rows(&place);
    // Pending questions were dropped when the training ended.
    assert!(server.replies() >= 3 * rows.len() && rows.len() >= 24, "{} of {}", server.replies(), rows.len());
    for row in &rows {
        let judgement = row.process.as_ref().unwrap();
        assert_eq!((judgement.votes.len(), row.hint.as_ref()), (3, None), "{row:?}");
        assert_eq!(judgement.usage.unwrap().replies, 3);
    }
    let good = rows.iter().find(|row| row.process.as_ref().unwrap().verdict == Some(1)).unwrap();
    let attempt = good.attempt.to_string();
    let shown = place.clawrl(&["show", "judged", "--attempt", &attempt]).ends(0).out;
    assert!(shown.contains("\njudged   1 (3 for it): Odd is good.\n"), "{shown}");
    let json = place.clawrl(&["show", "judged", "--attempt", &attempt, "--json"]).ends(0).json();
    assert_eq!(json["judged"][0]["process"]["votes"].as_array().unwrap().len(), 3, "{json}");
    assert!(json["trajectory"].is_object(), "{json}");
}

#[test]
fn hints_of_a_judge_are_read_by_a_teacher() {
    let server = ModelServer::start(Manner::default());
    let keys = "objective: opd, distillation: { hints: [judge] }, judging: { judge: judge.yaml }";
    let place = place(&server, HOPELESS, keys);
    trained(&place, "judged");
    assert_ne!(weights(&place, "judged", 2), weights(&place, "judged", 0));
    assert!(sum(&place, Metric::TrainHintedEpisodesCount) >= 4.0);
    assert_eq!(sum(&place, Metric::TrainHintsTooLongCount), 0.0);
    let rows = rows(&place);
    assert!(rows.iter().all(|row| row.process.is_none()), "nothing is made of verdicts here");
    let hinted = rows.iter().find(|row| row.hint.as_ref().unwrap().verdict == Some(1)).unwrap();
    assert_eq!(hinted.hint.as_ref().unwrap().hints(), ["Write one letter less."]);
    let shown = place.clawrl(&["show", "judged", "--attempt", &hinted.attempt.to_string()]).ends(0).out;
    assert!(shown.contains("\nhint     Write one letter less.\n"), "{shown}");
}

#[test]
fn hints_of_a_judge_over_the_budget_are_left_out_and_counted() {
    let server = ModelServer::start(Manner::default());
    let keys = "distillation: { hints: [judge], max_hint_tokens: 2 }, judging: { judge: judge.yaml }";
    let place = place(&server, "", keys);
    trained(&place, "judged");
    assert_eq!(sum(&place, Metric::TrainHintedEpisodesCount), 0.0);
    assert!(sum(&place, Metric::TrainHintsTooLongCount) >= 1.0);
}

/// The server answers the probe before the training and ends before the first turn.
#[test]
fn a_judge_that_dies_costs_its_deadline_and_nothing_else() {
    let began = Instant::now();
    trained(&lucky(&train("schedule: synchronous"), ""), "judged");
    let without = began.elapsed();
    let server = ModelServer::start(Manner { dies_after: Some(0), ..Manner::default() });
    let keys = "schedule: synchronous, process_weight: 0.5, judging: { judge: judge.yaml, timeout_secs: 3 }";
    let place = place(&server, "", keys);
    let began = Instant::now();
    trained(&place, "judged");
    // Twice: an attempt may end just before another one's timeout. The other time may double on a busy machine.
    assert!(
        began.elapsed() < 2 * without + Duration::from_secs(10),
        "{:?}, not {without:?}",
        began.elapsed()
    );
    let counts = &progress(&place, "judged", 2)["counts"];
    assert_eq!(counts["informative"], 4, "groups go on to the learner without votes");
    assert_eq!(sum(&place, Metric::TrainTurnsJudgedCount), 0.0);
    let unjudged = sum(&place, Metric::TrainTurnsUnjudgedCount);
    assert!(unjudged >= 24.0);
    assert_eq!(sum(&place, Metric::TrainVotesMissingCount), 3.0 * unjudged);
    let rows = rows(&place);
    assert!(rows.iter().all(|row| row.process.as_ref().unwrap().verdict.is_none()));
    let left_alone =
        |row: &&JudgedTurn| row.process.as_ref().unwrap().missing[0].starts_with("judge-left-alone");
    assert!(rows.iter().filter(left_alone).count() > 0, "it is not asked for ever");
    let shown = place.clawrl(&["show", "judged", "--attempt", "s0.0"]).ends(0).out;
    assert!(shown.contains("\njudged   unjudged (3 missing); "), "{shown}");
}

#[test]
fn a_judge_that_is_slower_than_its_deadline_is_not_waited_for() {
    let server = ModelServer::start(Manner { hangs_after: Some(""), ..Manner::default() });
    let keys = "process_weight: 0.5, judging: { judge: judge.yaml, timeout_secs: 1 }";
    let place = place(&server, "", keys);
    trained(&place, "judged");
    assert_eq!(sum(&place, Metric::TrainTurnsJudgedCount), 0.0);
    assert!(sum(&place, Metric::TrainTurnsUnjudgedCount) >= 24.0);
    assert!(server.replies() > 0);
}

#[test]
fn what_a_judge_babbles_is_no_verdict() {
    let server = ModelServer::start(Manner { babbles: true, ..Manner::default() });
    let keys = "process_weight: 0.5, distillation: { hints: [judge] }, judging: { judge: judge.yaml }";
    let place = place(&server, "", keys);
    trained(&place, "judged");
    assert_eq!(sum(&place, Metric::TrainTurnsJudgedCount), 0.0);
    assert_eq!(sum(&place, Metric::TrainHintedEpisodesCount), 0.0);
    for row in rows(&place) {
        for judgement in [row.process, row.hint] {
            let judgement = judgement.unwrap();
            assert!(
                judgement.verdict.is_none() && judgement.missing[0].starts_with("vote-missing: "),
                "{judgement:?}"
            );
        }
    }
}

#[test]
fn a_judge_that_is_not_there_is_told_before_anything_starts() {
    let server = ModelServer::start(Manner::default());
    let place = place(&server, "", "process_weight: 0.5, judging: { judge: judge.yaml }");
    drop(server);
    let said = place.clawrl(&["train", "train.yaml", "--name", "judged"]).ends(6);
    assert!(said.err.contains("server-unreachable"), "{}", said.err);
    assert!(!place.results().exists());
}

/// Rules are deterministic, so that a training with them is reproducible.
#[test]
fn rules_judge_without_a_model_and_a_killed_training_ends_with_the_same_bits() {
    let rules = r#"  updates: 4
  process_weight: 0.5
  distillation: { hints: [judge, sibling] }
  judging:
    rules:
      - { where: reply, matches: "^(touch|rm) sign", verdict: 1 }
      - { where: reply, matches: "ls", verdict: -1, hint: "Do something to the sign." }
"#;
    let place = ground(&REPRODUCIBLE.replace("  updates: 4\n", rules));
    let undisturbed = trained(&place, "judged");
    killed(&place, "killed", &["update    3/4"]);
    let said = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0);
    assert_eq!(figures(&said), figures(&undisturbed));
    assert_alike(&place, "killed", "judged");

    let rows = rows(&place);
    let verdicts: Vec<_> = rows.iter().map(|row| row.process.as_ref().unwrap().verdict.unwrap()).collect();
    for verdict in [1, 0, -1] {
        assert!(verdicts.contains(&verdict), "no {verdict} in {verdicts:?}");
    }
    assert_eq!(sum(&place, Metric::TrainTurnsUnjudgedCount), 0.0);
    let said = |row: &JudgedTurn| row.process.as_ref().unwrap().votes[0].reason.clone();
    let bad = rows.iter().find(|row| row.process.as_ref().unwrap().verdict == Some(-1)).unwrap();
    assert_eq!(said(bad), "reply matches `ls`");
    let neither = rows.iter().find(|row| row.process.as_ref().unwrap().verdict == Some(0)).unwrap();
    assert_eq!(said(neither), "no rule matches");
}
