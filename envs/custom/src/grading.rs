//! Converts an environment's report about an episode to a grade.
//!
//! I1. Names and messages are single lines without control characters: a name has at most 80 characters, a message
//! 1,000.

use clawrl_core::{CheckReport, Grade, StopReason, printable_line};

use crate::message::{CheckAnswer, DoneAnswer, GradeAnswer, NAME, SAID};
use crate::peer_error::PeerError;

const REASON_CHARS: usize = 64;

/// Builds the grade. The score alone decides whether it is passed, as it decides the reward; checks are informative.
///
/// # Errors
/// [`PeerError`] for invalid scores.
pub(crate) fn grade(answer: GradeAnswer) -> Result<Grade, PeerError> {
    let score = score_of(answer.score, "score")?;
    let mut checks: Vec<CheckReport> = answer.checks.into_iter().map(check).collect::<Result<_, _>>()?;
    let passed = score >= 1.0;
    if checks.is_empty() {
        let (label, message) = ("grade".to_owned(), "as the environment says".to_owned());
        checks.push(CheckReport { label, score, weight: 1.0, message });
    }
    Ok(Grade { score, passed, checks, flags: Vec::new(), judge_usage: None, patch: None })
}

fn check(answer: CheckAnswer) -> Result<CheckReport, PeerError> {
    let label = printable_line(&answer.name, NAME);
    let score = score_of(answer.score, &format!("score of the check `{label}`"))?;
    Ok(CheckReport { label, score, weight: 1.0, message: printable_line(&answer.message, SAID) })
}

fn score_of(score: f64, what: &str) -> Result<f64, PeerError> {
    if (0.0..=1.0).contains(&score) {
        return Ok(score);
    }
    Err(PeerError::protocol(format!("`grade` was answered with {score} as {what}, which is not from 0 to 1")))
}

/// Why an environment ended an episode, if it did.
pub(crate) fn end(done: Option<DoneAnswer>) -> Option<StopReason> {
    match done? {
        DoneAnswer::Plain(false) => None,
        DoneAnswer::Plain(true) => Some(StopReason::Ended("done".to_owned())),
        DoneAnswer::Reason(reason) if reason == "submitted" => Some(StopReason::Submitted),
        DoneAnswer::Reason(reason) => Some(StopReason::Ended(printable_line(&reason, REASON_CHARS))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(answer: Value, expected: Result<(f64, bool, usize), &str>) {
        let answer = serde_json::from_value(answer).unwrap();
        match (grade(answer), expected) {
            (Ok(grade), Ok(expected)) => {
                assert_eq!((grade.score, grade.passed, grade.checks.len()), expected)
            }
            (Err(PeerError::Wrong { message, .. }), Err(part)) => {
                assert!(message.contains(part), "{message}")
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn grades() {
        check(json!({ "score": 1 }), Ok((1.0, true, 1)));
        check(json!({ "score": 0.5 }), Ok((0.5, false, 1)));
        let (half, whole) = (json!({ "name": "a", "score": 0.5 }), json!({ "name": "b", "score": 1 }));
        check(json!({ "score": 1, "checks": [half, whole] }), Ok((1.0, true, 2)));
        check(json!({ "score": 0.9, "checks": [whole] }), Ok((0.9, false, 1)));
        check(json!({ "score": 1.5 }), Err("1.5 as score"));
        check(json!({ "score": -1e300 }), Err("not from 0 to 1"));
        check(json!({ "score": 1, "checks": [{ "name": "a", "score": 2 }] }), Err("score of the check `a`"));
    }

    #[test]
    fn i1_names_and_messages_are_a_line_each() {
        let told = |name: &str, message: &str| {
            let answer = json!({ "score": 1, "checks": [{ "name": name, "score": 1, "message": message }] });
            let checks = grade(serde_json::from_value(answer).unwrap()).unwrap().checks;
            (checks[0].label.clone(), checks[0].message.clone())
        };
        let (label, message) = told("a\u{1b}]0;x\u{7}", "ok\npass  C2\r\u{202e}\0");
        assert_eq!((label.as_str(), message.as_str()), (r"a\u{1b}]0;x\u{7}", r"ok\npass  C2\r\u{202e}\0"));
        let (label, message) = told(&"n".repeat(100_000), &"m".repeat(100_000));
        assert_eq!((label.chars().count(), message.chars().count()), (80, 1_000));
    }

    #[test]
    fn ends() {
        assert_eq!(end(None), None);
        assert_eq!(end(Some(DoneAnswer::Plain(false))), None);
        assert_eq!(end(Some(DoneAnswer::Plain(true))), Some(StopReason::Ended("done".to_owned())));
        assert_eq!(end(Some(DoneAnswer::Reason("submitted".to_owned()))), Some(StopReason::Submitted));
        assert_eq!(
            end(Some(DoneAnswer::Reason("fell".to_owned()))),
            Some(StopReason::Ended("fell".to_owned()))
        );
        let hostile = end(Some(DoneAnswer::Reason("fell\n\u{1b}[2J".to_owned())));
        assert_eq!(hostile, Some(StopReason::Ended(r"fell\n\u{1b}[2J".to_owned())));
    }
}
