//! Suites with rubrics, and their judges.

use std::fs;

use crate::model_server::{Manner, ModelServer};
use crate::place::Place;
use crate::toolcalling::bare;

/// Three answers: polite, rude, and one without a vote.
const MANNERS: &str = r#"
format: 1
suite: manners
defaults: { action_format: hermes, max_turns: 2, env: { toolcall: { tools: {} } } }
tasks:
  - id: polite
    instruction: Answer the letter.
    checks:
      - answer_rubric: It says thanks to {{ 'the' }} sender.
        label: manners
      - answer_matches: sender
    oracle: { actions: [{ submit: "Dear sender, thank you." }] }
    mistakes: [{ actions: [{ submit: "Dear sender, no." }] }]
"#;

fn place() -> Place {
    let place = Place::new();
    place.suite("manners", MANNERS);
    place
}

fn judge(server: &ModelServer) -> [String; 6] {
    ["--judge", "openai:able", "--judge-base-url", &server.base_url(), "--judge-key-env", "none"]
        .map(str::to_owned)
}

fn with<'a>(arguments: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    arguments.iter().copied().chain(more.iter().map(String::as_str)).collect()
}

#[test]
fn a_judge_votes_and_the_record_says_how() {
    let (place, server) = (place(), ModelServer::start(Manner::default()));
    let judge = judge(&server);
    let said = bare(&place, &with(&["validate", "manners", "--mistakes", "--quiet"], &judge)).ends(0);
    insta::assert_snapshot!(said.out, @r#"
    family          mistakes  pass
    manners/polite         1     0
    0 of 1 mistakes pass (0.0 %)
    1 of 1 tasks are valid
    "#);
    let said = bare(&place, &with(&["run", "manners", "--name", "one"], &judge)).ends(0);
    assert!(said.err.contains(&format!(", judge openai:able at {}", server.base_url())), "{}", said.err);
    assert!(said.out.contains("\njudge: tokens 300 in (0 cached), 24 out"), "{}", said.out);
    let run = place.run("one");
    assert_eq!(run.summary().total.passed, 1);
    assert_eq!(run.summary().total.judge_usage.unwrap().replies, 3);
    let shown = place.clawrl(&["show", "one", "--attempt", "s0.0"]).ends(0).out;
    let check = "check    1.00 manners: votes: 3 for it: It says thanks.";
    assert!(shown.contains(check), "no `{check}` in\n{shown}");
    let report = place.clawrl(&["report", "one"]);
    assert!(report.out.contains("the judge: 3 replies"), "{report:?}");
    // The plan contains the judge, so resumed and replayed runs use it.
    let played = bare(&place, &["run", "--policy", "replay:one", "--name", "two"]).ends(0);
    assert!(played.out.contains("\njudge: "), "{}", played.out);
}

#[test]
fn a_judge_that_says_nothing_is_a_fault_and_no_score() {
    let (place, server) = (place(), ModelServer::start(Manner::default()));
    place.suite("manners", &MANNERS.replace("Dear sender, thank you.", "..."));
    let said =
        bare(&place, &with(&["run", "manners", "--json", "--quiet", "--max-retries", "1"], &judge(&server)));
    let total = &said.ends(4).json()["summary"]["total"];
    assert_eq!((&total["faulted"], &total["faulted_attempts"]), (&1.into(), &2.into()), "{total}");
}

#[test]
fn what_is_wrong_with_a_judge_is_told_before_anything_starts() {
    let (place, server) = (place(), ModelServer::start(Manner { key: "k".to_owned(), ..Manner::default() }));
    let said = |more: &[&str]| {
        let said = bare(&place, &[&["run", "manners"], more].concat()).ends(2);
        assert!(!place.results().exists(), "{said:?}");
        place.settled(&said.err)
    };
    insta::assert_snapshot!(said(&[]), @r#"
    error: task manners/polite has an `answer_rubric`, and there is no judge
       ,-[tasks/manners/suite.yaml:6:9]
     5 | tasks:
     6 |   - id: polite
       :         ^^^|^^
       :            `-- asks a judge
     7 |     instruction: Answer the letter.
       `----
      help: name a model with --judge, as in `--judge openai:MODEL`
    "#);
    insta::assert_snapshot!(said(&["--judge", "oracle"]), @r#"
    error: invalid value 'oracle' for '--judge <MODEL>': only a model behind a server judges: write openai:MODEL, anthropic:MODEL or remote:FILE

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(&["--judge-base-url", "http://localhost:1/v1"]), @r#"
    error: --judge-base-url and --judge-key-env go with --judge
      help: write `--judge openai:MODEL`, or leave them out
    "#);
    fs::write(place.path().join("judge.yaml"), "format: 1\nmodel: able\nbase_url: here\n").unwrap();
    insta::assert_snapshot!(said(&["--judge", "remote:judge.yaml"]), @r#"
    error: the base URL does not start with `http://` or `https://`
       ,-[judge.yaml:3:11]
     2 | model: able
     3 | base_url: here
       :           ^^|^
       :             `-- this URL
       `----
      help: write it like `http://localhost:8000/v1`
    "#);
    let more = judge(&server);
    let refused = said(&with(&[], &more));
    assert!(refused.contains("key"), "{refused}");
}
