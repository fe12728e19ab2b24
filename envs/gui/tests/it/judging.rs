//! Grading: answers by a judge, fields, a tab's storage.

use std::sync::Arc;

use clawrl_core::{
    AnswerCheck, Boundary, Check, ElementPattern, EnvProvider, Fault, Grade, Judge, JudgeResponse,
    JudgeSubject, PageCheck, Retry, StorageArea, TextPattern, ToolCall, Vote, VoteValue,
};
use clawrl_testkit::ScriptedJudge;
use serde_json::json;

use crate::support::{
    begin, checked_task, ctx, graded, map, page, spec, step, task, with_changed, with_provider,
};

use VoteValue::{Met, NotMet};

/// Votes; the others of three are missing.
fn voting(votes: Vec<VoteValue>) -> Arc<dyn Judge> {
    Arc::new(ScriptedJudge::new(move |question| {
        let JudgeSubject::Answer { rubric, answer } = question.subject else { panic!("{question:?}") };
        assert_eq!((rubric, answer, question.votes), ("It says thanks.", "Ta!", 3));
        let vote =
            |verdict: &VoteValue| Vote { verdict: *verdict, reason: "So it is.".to_owned(), hint: None };
        let silent = Fault::transient(Boundary::Policy, "silent", "no answer");
        let missing = vec![silent; 3 - votes.len()];
        Some(JudgeResponse { votes: votes.iter().map(vote).collect(), missing, usage: None })
    }))
}

async fn judged(provider: &dyn EnvProvider, answer: Option<&str>) -> Result<Grade, Fault> {
    let checks = vec![
        Check::Answer(AnswerCheck::Equals { expected: "Ta!".to_owned() }),
        Check::Rubric { rubric: "It says thanks.".to_owned(), votes: 3 },
        Check::Page(PageCheck::Script { run: "return document.title".to_owned(), equals: json!("Main") }),
    ];
    let task = checked_task(spec(vec![page("index.html", "<title>Main</title>")]), checks);
    let (mut env, _) = begin(provider, &task).await;
    if let Some(answer) = answer {
        let submit = ToolCall::new("submit", json!({ "answer": answer }));
        env.step(&[submit], ctx(1)).await.unwrap();
    }
    let grade = env.grade(ctx(9)).await;
    env.close().await;
    grade
}

#[test]
fn judge_grades_answers_and_silence_is_fault() {
    let check = |votes: Option<Vec<VoteValue>>, answer, expected: Result<[f64; 3], (&str, Retry)>| {
        with_changed(
            |config| config.judge = votes.map(voting),
            |provider| async move {
                match (judged(provider.as_ref(), answer).await, expected) {
                    (Ok(grade), Ok(scores)) => {
                        let found: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
                        assert_eq!(found, scores, "{grade:?}");
                        assert_eq!(grade.passed, scores == [1.0; 3]);
                    }
                    (Err(fault), Err((code, retry))) => {
                        assert_eq!(
                            (fault.boundary, fault.code.as_str()),
                            (Boundary::Grader, code),
                            "{fault}"
                        );
                        assert!(fault.retry == retry, "{fault}");
                    }
                    (found, expected) => panic!("{found:?}, expected {expected:?}"),
                }
            },
        );
    };
    check(Some(vec![Met, NotMet, Met]), Some("Ta!"), Ok([1.0, 1.0, 1.0]));
    check(Some(vec![NotMet, NotMet, Met]), Some("Ta!"), Ok([1.0, 0.0, 1.0]));
    // Without an answer no judge is asked.
    check(Some(vec![Met]), None, Ok([0.0, 0.0, 1.0]));
    check(Some(vec![Met]), Some("Ta!"), Err(("judge-silent", Retry::Sound)));
    check(None, Some("Ta!"), Err(("judge-missing", Retry::Never)));
}

#[test]
fn fields_are_judged_by_value_attributes_and_state() {
    with_provider(|provider| async move {
        let html = "<title>Fields</title><input id=name aria-label=Name data-kind=short><input id=gift type=checkbox aria-label=Gift>\
            <select id=size aria-label=Size><option>Small<option>Large</select>\
            <button onclick='sessionStorage.step = 2; localStorage.step = 3'>Keep</button>";
        let equals = |text: &str| Some(TextPattern::Equals(text.to_owned()));
        let element = |selector: &str, with: ElementPattern| PageCheck::Element {
            selector: selector.to_owned(),
            with,
            at_least: 1,
            at_most: None,
        };
        let valued = |selector: &str, value: &str| {
            element(selector, ElementPattern { value: equals(value), ..ElementPattern::default() })
        };
        let with = |selector: &str, name: &str, value: &str| {
            let attributes = map(&[(name, value)]);
            let attributes = attributes.into_iter().map(|(name, value)| (name, TextPattern::Equals(value)));
            element(
                selector,
                ElementPattern { attributes: attributes.collect(), ..ElementPattern::default() },
            )
        };
        let checked = |selector: &str, checked| {
            element(selector, ElementPattern { checked: Some(checked), ..ElementPattern::default() })
        };
        let kept = |area, value: Option<&str>| PageCheck::Storage {
            area,
            origin: Some("http://app.localhost".to_owned()),
            key: "step".to_owned(),
            value: value.and_then(equals),
        };
        // Each with the score that it has before, and after.
        let (session, local) = (StorageArea::Session, StorageArea::Local);
        let cases = [
            (valued("#name", "Ada"), 0.0, 1.0),
            (valued("#name", ""), 1.0, 0.0),
            (valued("#size", "Large"), 0.0, 1.0),
            (valued("p", "Ada"), 0.0, 0.0),
            (with("#name", "data-kind", "short"), 1.0, 1.0),
            (with("#name", "data-kind", "long"), 0.0, 0.0),
            (with("#name", "data-none", "short"), 0.0, 0.0),
            (checked("#gift", true), 0.0, 1.0),
            (checked("#gift", false), 1.0, 0.0),
            (kept(session, Some("2")), 0.0, 1.0),
            (kept(session, Some("3")), 0.0, 0.0),
            (kept(session, None), 1.0, 0.0),
            (kept(local, Some("3")), 0.0, 1.0),
        ];
        let task = task(
            spec(vec![page("index.html", html)]),
            cases.iter().map(|(check, ..)| check.clone()).collect(),
        );
        let lines = ["type \"Name\" Ada", "click \"Gift\"", "select \"Size\" Large", "click \"Keep\""];
        for is_done in [false, true] {
            let (mut env, _) = begin(provider.as_ref(), &task).await;
            for line in lines.iter().filter(|_| is_done) {
                let seen = step(env.as_mut(), line).await;
                assert!(!seen.starts_with("error"), "{seen}");
            }
            let grade = graded(env.as_mut()).await;
            env.close().await;
            for ((check, before, after), report) in cases.iter().zip(&grade.checks) {
                let expected = if is_done { *after } else { *before };
                assert_eq!(report.score, expected, "{check:?}, {is_done}: {report:?}");
            }
        }
    });
}
