//! Answers that a judge votes on.

use std::sync::Arc;

use clawrl_core::{
    AnswerCheck, Boundary, Check, EnvProvider, Fault, Grade, Judge, JudgeResponse, JudgeSubject, Retry,
    ToolKind, Vote, VoteValue,
};
use clawrl_testkit::{ScriptedJudge, file_equals, ready, step_ctx};

use crate::support::{
    act, bare_provider, code, in_process, judged_provider, sandboxed, submit, tool, toolcall_task, with_judge,
};

use VoteValue::{Met, NotMet, Undecided};

fn rubric() -> Check {
    Check::Rubric { rubric: "It says thanks.".to_owned(), votes: 3 }
}

/// Votes with reasons; the others of three are missing.
fn voting(votes: &'static [(VoteValue, &'static str)], fault: Fault) -> Arc<dyn Judge> {
    Arc::new(ScriptedJudge::new(move |question| {
        let JudgeSubject::Answer { rubric, .. } = question.subject else { panic!("{question:?}") };
        assert_eq!((rubric, question.votes), ("It says thanks.", 3));
        let vote = |(verdict, reason): &(VoteValue, &str)| Vote {
            verdict: *verdict,
            reason: (*reason).to_owned(),
            hint: None,
        };
        let missing = vec![fault.clone(); 3 - votes.len()];
        Some(JudgeResponse { votes: votes.iter().map(vote).collect(), missing, usage: None })
    }))
}

fn silent() -> Fault {
    Fault::transient(Boundary::Policy, "silent", "no answer")
}

async fn graded(
    provider: &dyn EnvProvider,
    checks: Vec<Check>,
    answer: Option<&str>,
) -> Result<Grade, Fault> {
    let mut env = ready(provider, &toolcall_task(in_process(Vec::new()), checks)).await;
    if let Some(answer) = answer {
        act(env.as_mut(), &[submit(answer)]).await;
    }
    let grade = env.grade(step_ctx(9)).await;
    env.close().await;
    grade
}

#[tokio::test]
async fn majority_decides_with_its_reason() {
    let check = async |votes, expected: (f64, &str)| {
        let provider = judged_provider(voting(votes, silent()));
        let grade = graded(&provider, vec![rubric()], Some("Ta!")).await.unwrap();
        assert_eq!((grade.checks[0].score, grade.checks[0].message.as_str()), expected);
        assert_eq!(grade.passed, expected.0 == 1.0);
    };
    let met = (1.0, "votes: 2 for it, 1 against: `Ta` will do.");
    check(&[(NotMet, "Rude."), (Met, "`Ta` will do."), (Met, "Yes.")], met).await;
    check(&[(NotMet, ""); 3], (0.0, "votes: 3 against")).await;
    check(&[(Met, "Yes."), (Met, "")], (1.0, "votes: 2 for it, 1 missing: Yes.")).await;
    check(&[(Undecided, ""), (Met, "Yes."), (NotMet, "")], (0.0, "votes: 1 for it, 1 against, 1 undecided"))
        .await;
    let hostile = (1.0, r"votes: 3 for it: Say \u{1b}[31m\nit");
    check(&[(Met, "Say \u{1b}[31m\nit"); 3], hostile).await;
}

#[tokio::test]
async fn rubrics_and_other_checks_stand_in_their_order() {
    let equals = || Check::Answer(AnswerCheck::Equals { expected: "Ta!".to_owned() });
    let provider = judged_provider(voting(&[(NotMet, ""); 3], silent()));
    let grade = graded(&provider, vec![equals(), rubric(), equals()], Some("Ta!")).await.unwrap();
    let scores: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
    assert_eq!(scores, [1.0, 0.0, 1.0]);
}

#[tokio::test]
async fn j1_no_judge_without_an_answer() {
    let long = "x".repeat(16 * 1024 + 1);
    for answer in [None, Some(long.as_str())] {
        let judge = Arc::new(ScriptedJudge::new(|_| panic!("it was asked")));
        let grade = graded(&judged_provider(judge), vec![rubric()], answer).await.unwrap();
        assert!(!grade.passed && grade.judge_usage.is_none());
    }
}

#[tokio::test]
async fn j2_a_judge_that_is_not_heard_is_a_fault() {
    let check = async |provider: &dyn EnvProvider, code: &str, retry| {
        let fault = graded(provider, vec![rubric()], Some("Ta!")).await.unwrap_err();
        assert_eq!(
            (fault.boundary, fault.code.as_str(), fault.retry),
            (Boundary::Grader, code, retry),
            "{fault}"
        );
    };
    check(&judged_provider(voting(&[(Met, "")], silent())), "judge-silent", Retry::Sound).await;
    check(&judged_provider(voting(&[(Met, ""), (NotMet, "")], silent())), "judge-silent", Retry::Sound).await;
    let refused = Fault::permanent(Boundary::Policy, "refused", "no such key");
    check(&judged_provider(voting(&[], refused)), "judge-silent", Retry::Never).await;
    check(&bare_provider(), "judge-missing", Retry::Never).await;
}

#[tokio::test]
async fn cancelled_attempt_does_not_wait_for_judge() {
    let provider = judged_provider(Arc::new(ScriptedJudge::new(|_| None)));
    let mut env = ready(&provider, &toolcall_task(in_process(Vec::new()), vec![rubric()])).await;
    act(env.as_mut(), &[submit("Ta!")]).await;
    let ctx = step_ctx(9);
    ctx.cancel.cancel();
    let fault = env.grade(ctx).await.unwrap_err();
    assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Grader, "cancelled"), "{fault}");
}

#[test]
fn files_and_rubrics_are_graded_side_by_side() {
    let spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    with_judge(&spec.clone(), voting(&[(Met, ""); 3], silent()), |provider| async move {
        let checks = vec![rubric(), file_equals("out.txt", "6")];
        let mut env = ready(provider.as_ref(), &toolcall_task(spec, checks)).await;
        act(env.as_mut(), &[code("open('out.txt', 'w').write('6')")]).await;
        act(env.as_mut(), &[submit("Ta!")]).await;
        let grade = env.grade(step_ctx(9)).await.unwrap();
        assert!(grade.passed, "{grade:?}");
        assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    });
}
