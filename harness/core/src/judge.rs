//! Judges decide whether an answer meets a rubric, and what a single turn was worth.

use std::sync::Arc;
use std::time::Instant;

use crate::{AttemptId, Boundary, BoxFuture, CancelToken, Fault, Retry, Role, TaskSpec, UsageTotal};

/// Request to a judge. Borrowed: the caller keeps the texts.
#[derive(Debug, Clone)]
pub struct JudgeRequest<'a> {
    /// The attempt that is judged.
    pub attempt: AttemptId,
    /// The task; its instruction is shown to the judge.
    pub task: &'a Arc<TaskSpec>,
    /// The subject of the judgement.
    pub subject: JudgeSubject<'a>,
    /// Votes to be cast. At least 1.
    pub votes: u32,
    /// Root of the seeds of the votes.
    pub seed: u64,
    /// Votes that are not there by then are missing.
    pub deadline: Instant,
    /// Fires when the attempt is given up.
    pub cancel: &'a CancelToken,
}

/// Subject of a judgement. All texts except rubric and role come from the agent or the environment and are untrusted.
#[derive(Debug, Clone, Copy)]
pub enum JudgeSubject<'a> {
    /// Whether an answer meets a rubric.
    Answer {
        /// The rubric.
        rubric: &'a str,
        /// The answer.
        answer: &'a str,
    },
    /// The value of a turn, judged by the next state: [`VoteValue::Met`] if the turn advanced the task, [`VoteValue::NotMet`]
    /// if it was a mistake, [`VoteValue::Undecided`] if neither is evident. A tool call that merely did not fail is undecided.
    Turn(TurnContext<'a>),
    /// A hint that would have helped before the turn, judged by the next state: [`VoteValue::Met`] with a hint, or [`VoteValue::NotMet`].
    Hint(TurnContext<'a>),
}

/// A turn with the conversation before it and the state after it.
#[derive(Debug, Clone, Copy)]
pub struct TurnContext<'a> {
    /// The conversation up to the turn, behind the instruction; may be empty.
    pub before: &'a str,
    /// Reply of the policy.
    pub reply: &'a str,
    /// The next state and its role; `None` if the attempt ended with the turn.
    pub next: Option<(Role, &'a str)>,
}

/// Value of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteValue {
    /// The answer meets the rubric; the turn was good; there is a hint.
    Met,
    /// Negative: the rubric is not met, the turn was bad, or there is no hint.
    NotMet,
    /// Cannot be decided.
    Undecided,
}

impl VoteValue {
    /// The number that judges write: 1, -1 or 0.
    #[must_use]
    pub fn sign(self) -> i8 {
        match self {
            Self::Met => 1,
            Self::NotMet => -1,
            Self::Undecided => 0,
        }
    }
}

/// A vote that was cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// Value of the vote.
    pub verdict: VoteValue,
    /// Why, in the judge's own words; may be empty. Not to be trusted: the judge has read the answer.
    pub reason: String,
    /// The hint, for [`JudgeSubject::Hint`] with [`VoteValue::Met`]. Untrusted, too.
    pub hint: Option<String>,
}

/// All that came of a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JudgeResponse {
    /// Votes that were cast.
    pub votes: Vec<Vote>,
    /// Why the others are missing.
    pub missing: Vec<Fault>,
    /// Usage of the votes, if the judge reports it.
    pub usage: Option<UsageTotal>,
}

impl JudgeResponse {
    /// Votes of this kind.
    #[must_use]
    pub fn count(&self, verdict: VoteValue) -> usize {
        self.votes.iter().filter(|vote| vote.verdict == verdict).count()
    }

    /// The strict majority of the votes cast, or [`VoteValue::Undecided`] without one.
    ///
    /// # Errors
    /// A grader [`Fault`] if fewer than half of the votes were cast, or if a missing vote could have made a majority: missing
    /// votes are not evidence. The fault is permanent if all missing votes would be missing again.
    pub fn outcome(&self) -> Result<VoteValue, Fault> {
        let (cast, all) = (self.votes.len(), self.votes.len() + self.missing.len());
        let needed = all.div_ceil(2).max(1);
        let majority = [VoteValue::Met, VoteValue::NotMet].into_iter().find(|of| 2 * self.count(*of) > cast);
        if cast < needed || (majority.is_none() && cast < all) {
            let first = self.missing.first().map_or("no vote was requested", |fault| fault.message.as_str());
            let wanted = if cast < needed {
                format!("but {needed} are needed")
            } else {
                "without a majority".to_owned()
            };
            let message = format!("{cast} of {all} votes of the judge arrived, {wanted}; {first}");
            let lasting = self.missing.iter().all(|fault| fault.retry == Retry::Never);
            let make = if lasting { Fault::permanent } else { Fault::transient };
            return Err(make(Boundary::Grader, "judge-silent", message));
        }
        Ok(majority.unwrap_or(VoteValue::Undecided))
    }

    /// The value of a turn: the strict majority of the votes cast, or [`VoteValue::Undecided`] without one; `None` if fewer
    /// than half of the requested votes were cast. Unlike [`JudgeResponse::outcome`] this is never a fault: an unjudged turn
    /// still counts by the outcome of its episode.
    #[must_use]
    pub fn majority(&self) -> Option<VoteValue> {
        let cast = self.votes.len();
        if cast < (cast + self.missing.len()).div_ceil(2).max(1) {
            return None;
        }
        let majority = [VoteValue::Met, VoteValue::NotMet].into_iter().find(|of| 2 * self.count(*of) > cast);
        Some(majority.unwrap_or(VoteValue::Undecided))
    }
}

/// Answers questions, many at once.
///
/// Called by environments while they grade, several times for one attempt where it has several rubrics, and by trainings, for
/// each turn of an attempt that has ended. It must return by the question's deadline, with the votes that are there.
/// Dropping the future cancels all work on the question. It must not block the thread.
pub trait Judge: Send + Sync {
    /// The votes.
    fn ask<'a>(&'a self, question: JudgeRequest<'a>) -> BoxFuture<'a, JudgeResponse>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(met: usize, not_met: usize, undecided: usize, missing: &[Retry]) -> JudgeResponse {
        let vote = |verdict| Vote { verdict, reason: String::new(), hint: None };
        let of = |count, verdict| std::iter::repeat_n(vote(verdict), count);
        let fault = |retry: &Retry| match retry {
            Retry::Never => Fault::permanent(Boundary::Policy, "refused", "the key is refused"),
            _ => Fault::transient(Boundary::Policy, "silent", "no answer"),
        };
        JudgeResponse {
            votes: of(met, VoteValue::Met)
                .chain(of(not_met, VoteValue::NotMet))
                .chain(of(undecided, VoteValue::Undecided))
                .collect(),
            missing: missing.iter().map(fault).collect(),
            usage: None,
        }
    }

    #[test]
    fn a_strict_majority_of_the_cast_votes_decides() {
        let check = |met, not_met, undecided, missing: &[Retry], expected| {
            let response = response(met, not_met, undecided, missing);
            assert_eq!(response.outcome(), Ok(expected), "{response:?}");
        };
        check(2, 1, 0, &[], VoteValue::Met);
        check(1, 2, 0, &[], VoteValue::NotMet);
        check(1, 1, 1, &[], VoteValue::Undecided);
        check(2, 0, 0, &[Retry::Sound], VoteValue::Met);
        check(1, 0, 2, &[], VoteValue::Undecided);
        check(1, 0, 0, &[], VoteValue::Met);
        check(1, 0, 0, &[Retry::Never], VoteValue::Met);
    }

    #[test]
    fn without_a_quorum_there_is_no_verdict() {
        let check = |met, missing: &[Retry], expected: (Retry, &str)| {
            let fault = response(met, 0, 0, missing).outcome().unwrap_err();
            assert_eq!((fault.retry, fault.message.as_str()), expected);
            assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Grader, "judge-silent"));
        };
        let one = "1 of 3 votes of the judge arrived, but 2 are needed; no answer";
        check(1, &[Retry::Sound, Retry::Never], (Retry::Sound, one));
        let fault = response(1, 1, 0, &[Retry::Sound]).outcome().unwrap_err();
        assert_eq!(fault.message, "2 of 3 votes of the judge arrived, without a majority; no answer");
        let none = "0 of 3 votes of the judge arrived, but 2 are needed; the key is refused";
        check(0, &[Retry::Never; 3], (Retry::Never, none));
        check(
            0,
            &[],
            (Retry::Never, "0 of 0 votes of the judge arrived, but 1 are needed; no vote was requested"),
        );
    }

    #[test]
    fn turn_has_the_majority_of_the_votes() {
        let check = |met, not_met, undecided, missing: usize, expected| {
            let response = response(met, not_met, undecided, &vec![Retry::Sound; missing]);
            assert_eq!(response.majority(), expected, "{response:?}");
        };
        check(2, 1, 0, 0, Some(VoteValue::Met));
        check(1, 1, 0, 1, Some(VoteValue::Undecided));
        check(1, 0, 1, 1, Some(VoteValue::Undecided));
        check(0, 2, 0, 1, Some(VoteValue::NotMet));
        check(1, 0, 0, 2, None);
        check(1, 0, 0, 1, Some(VoteValue::Met));
        check(0, 0, 0, 0, None);
        check(0, 0, 0, 3, None);
    }
}
