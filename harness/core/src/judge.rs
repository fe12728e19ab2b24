//! Judges: whatever says if an answer meets a rubric, where no check can, or what a single turn was worth.

use std::sync::Arc;
use std::time::Instant;

use crate::{AttemptId, Boundary, BoxFuture, CancelToken, Fault, Retry, Role, TaskSpec, UsageTotal};

/// What a judge is asked. Borrowed: the caller keeps the texts.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Whose answer or turn it is.
    pub attempt: AttemptId,
    /// The task; its instruction is shown to the judge.
    pub task: &'a Arc<TaskSpec>,
    /// What is to be judged.
    pub matter: Matter<'a>,
    /// Votes to be cast. At least 1.
    pub votes: u32,
    /// Root of the seeds of the votes.
    pub seed: u64,
    /// Votes that are not there by then are missing.
    pub deadline: Instant,
    /// Fires when the attempt is given up.
    pub cancel: &'a CancelToken,
}

/// What a judge is asked about. All texts but rubric and role come from agent and environment, and are not to be trusted.
#[derive(Debug, Clone, Copy)]
pub enum Matter<'a> {
    /// Whether an answer meets a rubric.
    Answer {
        /// What the answer has to meet.
        rubric: &'a str,
        /// The answer.
        answer: &'a str,
    },
    /// What a turn was worth, by what followed it: [`Verdict::Met`] if it brought the task forward, [`Verdict::NotMet`]
    /// if it was a mistake, [`Verdict::Undecided`] if neither shows. A tool call that merely did not fail is undecided.
    Turn(SeenTurn<'a>),
    /// What should have been known before a turn, by what followed it: [`Verdict::Met`] with a hint, or [`Verdict::NotMet`].
    Hint(SeenTurn<'a>),
}

/// A turn with what stood before it and what followed.
#[derive(Debug, Clone, Copy)]
pub struct SeenTurn<'a> {
    /// The conversation up to the turn, behind the instruction; may be empty.
    pub before: &'a str,
    /// What the policy replied.
    pub reply: &'a str,
    /// The next state and who speaks there; `None` where the attempt ended with the turn.
    pub next: Option<(Role, &'a str)>,
}

/// What one vote says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The answer meets the rubric; the turn was good; there is a hint.
    Met,
    /// It does not; it was not; there is none.
    NotMet,
    /// It cannot be told.
    Undecided,
}

impl Verdict {
    /// As judges write it: 1, -1 or 0.
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
    /// What it says.
    pub verdict: Verdict,
    /// Why, in the judge's own words; may be empty. Not to be trusted: the judge has read the answer.
    pub reason: String,
    /// Of [`Matter::Hint`] and [`Verdict::Met`]: the hint. Not to be trusted either.
    pub hint: Option<String>,
}

/// All that came of a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ballot {
    /// Votes that were cast.
    pub votes: Vec<Vote>,
    /// Why the others are missing.
    pub missing: Vec<Fault>,
    /// What the votes took, if the judge knows.
    pub usage: Option<UsageTotal>,
}

impl Ballot {
    /// Votes of this kind.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.votes.iter().filter(|vote| vote.verdict == verdict).count()
    }

    /// The strict majority of the votes that were cast, [`Verdict::Undecided`] where there is none.
    ///
    /// # Errors
    /// A grader [`Fault`] where fewer than half of the votes were cast, or where a missing one could have made a majority: a
    /// missing vote says nothing of the answer. It is permanent if all of them would be missing again.
    pub fn outcome(&self) -> Result<Verdict, Fault> {
        let (cast, all) = (self.votes.len(), self.votes.len() + self.missing.len());
        let needed = all.div_ceil(2).max(1);
        let majority = [Verdict::Met, Verdict::NotMet].into_iter().find(|of| 2 * self.count(*of) > cast);
        if cast < needed || (majority.is_none() && cast < all) {
            let first = self.missing.first().map_or("nobody was asked", |fault| fault.message.as_str());
            let wanted = if cast < needed {
                format!("{needed} are needed")
            } else {
                "they are no majority".to_owned()
            };
            let message = format!("{cast} of {all} votes of the judge came, {wanted}; {first}");
            let lasting = self.missing.iter().all(|fault| fault.retry == Retry::Never);
            let make = if lasting { Fault::permanent } else { Fault::transient };
            return Err(make(Boundary::Grader, "judge-silent", message));
        }
        Ok(majority.unwrap_or(Verdict::Undecided))
    }

    /// What became of a turn: the strict majority of the votes that were cast, [`Verdict::Undecided`] where there is none;
    /// nothing where fewer than half of those that were asked for were cast. No fault comes of it, unlike of
    /// [`Ballot::outcome`]: a turn that is not judged still counts by its outcome.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let cast = self.votes.len();
        if cast < (cast + self.missing.len()).div_ceil(2).max(1) {
            return None;
        }
        let majority = [Verdict::Met, Verdict::NotMet].into_iter().find(|of| 2 * self.count(*of) > cast);
        Some(majority.unwrap_or(Verdict::Undecided))
    }
}

/// Answers questions, many at once.
///
/// Called by environments while they grade, several times for one attempt where it has several rubrics, and by trainings, for
/// each turn of an attempt that has ended. It must return by the question's deadline, with the votes that are there.
/// Dropping the future cancels all work on the question. It must not block the thread.
pub trait Judge: Send + Sync {
    /// The votes.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Ballot>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(met: usize, not_met: usize, undecided: usize, missing: &[Retry]) -> Ballot {
        let vote = |verdict| Vote { verdict, reason: String::new(), hint: None };
        let of = |count, verdict| std::iter::repeat_n(vote(verdict), count);
        let fault = |retry: &Retry| match retry {
            Retry::Never => Fault::permanent(Boundary::Policy, "refused", "the key is refused"),
            _ => Fault::transient(Boundary::Policy, "silent", "no answer"),
        };
        Ballot {
            votes: of(met, Verdict::Met)
                .chain(of(not_met, Verdict::NotMet))
                .chain(of(undecided, Verdict::Undecided))
                .collect(),
            missing: missing.iter().map(fault).collect(),
            usage: None,
        }
    }

    #[test]
    fn a_strict_majority_of_the_cast_votes_decides() {
        let check = |met, not_met, undecided, missing: &[Retry], expected| {
            let ballot = ballot(met, not_met, undecided, missing);
            assert_eq!(ballot.outcome(), Ok(expected), "{ballot:?}");
        };
        check(2, 1, 0, &[], Verdict::Met);
        check(1, 2, 0, &[], Verdict::NotMet);
        check(1, 1, 1, &[], Verdict::Undecided);
        check(2, 0, 0, &[Retry::Sound], Verdict::Met);
        check(1, 0, 2, &[], Verdict::Undecided);
        check(1, 0, 0, &[], Verdict::Met);
        check(1, 0, 0, &[Retry::Never], Verdict::Met);
    }

    #[test]
    fn without_a_quorum_there_is_no_verdict() {
        let check = |met, missing: &[Retry], expected: (Retry, &str)| {
            let fault = ballot(met, 0, 0, missing).outcome().unwrap_err();
            assert_eq!((fault.retry, fault.message.as_str()), expected);
            assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Grader, "judge-silent"));
        };
        let one = "1 of 3 votes of the judge came, 2 are needed; no answer";
        check(1, &[Retry::Sound, Retry::Never], (Retry::Sound, one));
        let fault = ballot(1, 1, 0, &[Retry::Sound]).outcome().unwrap_err();
        assert_eq!(fault.message, "2 of 3 votes of the judge came, they are no majority; no answer");
        let none = "0 of 3 votes of the judge came, 2 are needed; the key is refused";
        check(0, &[Retry::Never; 3], (Retry::Never, none));
        check(0, &[], (Retry::Never, "0 of 0 votes of the judge came, 1 are needed; nobody was asked"));
    }

    #[test]
    fn a_turn_has_the_verdict_of_those_who_voted() {
        let check = |met, not_met, undecided, missing: usize, expected| {
            let ballot = ballot(met, not_met, undecided, &vec![Retry::Sound; missing]);
            assert_eq!(ballot.verdict(), expected, "{ballot:?}");
        };
        check(2, 1, 0, 0, Some(Verdict::Met));
        check(1, 1, 0, 1, Some(Verdict::Undecided));
        check(1, 0, 1, 1, Some(Verdict::Undecided));
        check(0, 2, 0, 1, Some(Verdict::NotMet));
        check(1, 0, 0, 2, None);
        check(1, 0, 0, 1, Some(Verdict::Met));
        check(0, 0, 0, 0, None);
        check(0, 0, 0, 3, None);
    }
}
