//! Checks of the answer by a judge.
//!
//! J1. A missing or too long answer fails every rubric, without asking a judge.
//! J2. A judge that does not answer says nothing about the answer: a fault, never a score.
//!
//! Cancellation: dropping the future drops the votes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{
    AttemptId, Boundary, CancelToken, Check, CheckReport, Fault, Judge, JudgeRequest, JudgeResponse,
    JudgeSubject, TaskSpec, UsageTotal, VoteValue, derive_seed,
};
use futures_util::future::try_join_all;

use super::finding::Finding;

/// A longer answer fails every rubric: an answer that exceeds the judge's context would be a fault, and an agent could
/// use that to keep a poor answer from being counted.
const ANSWER_BYTES: usize = 16 * 1024;

/// Judge and context of a request.
pub struct JudgeContext<'a> {
    /// Who is asked.
    pub judge: Option<&'a dyn Judge>,
    /// The attempt to judge.
    pub attempt: AttemptId,
    /// The task.
    pub task: &'a Arc<TaskSpec>,
    /// The answer, if there is one.
    pub answer: Option<&'a str>,
    /// Seed of the slot's environment.
    pub seed: u64,
    /// Later votes count as missing.
    pub deadline: Instant,
    /// Fires when the attempt is cancelled.
    pub cancel: &'a CancelToken,
}

/// Reports of the rubric checks, by their indices, and the judge's token usage.
pub type JudgeReports = (BTreeMap<usize, CheckReport>, Option<UsageTotal>);

impl JudgeContext<'_> {
    /// Evaluates all rubric checks concurrently.
    ///
    /// # Errors
    /// A grader [`Fault`] if too few votes came, or there is no judge.
    pub async fn ask(&self) -> Result<JudgeReports, Fault> {
        let rubrics = self.task.checks.iter().enumerate().filter_map(|(place, spec)| match &spec.check {
            Check::Rubric { rubric, votes } => Some((place, spec, rubric.as_str(), *votes)),
            _ => None,
        });
        let found = rubrics.map(|(place, spec, rubric, votes)| async move {
            let (finding, usage) = self.find(place, rubric, votes).await?;
            Ok::<_, Fault>((place, finding.report(spec), usage))
        });
        let (mut reports, mut total) = (BTreeMap::new(), None::<UsageTotal>);
        for (place, report, usage) in try_join_all(found).await? {
            reports.insert(place, report);
            if let Some(usage) = usage {
                total.get_or_insert_default().merge(&usage);
            }
        }
        Ok((reports, total))
    }

    async fn find(
        &self,
        place: usize,
        rubric: &str,
        votes: u32,
    ) -> Result<(Finding, Option<UsageTotal>), Fault> {
        let Some(answer) = self.answer else { return Ok((Finding::fail("no answer was submitted"), None)) };
        if answer.len() > ANSWER_BYTES {
            let message = format!("the answer has {} bytes, more than {ANSWER_BYTES}", answer.len());
            return Ok((Finding::fail(message), None));
        }
        let judge = self.judge.ok_or_else(|| {
            Fault::permanent(Boundary::Grader, "judge-missing", "a check needs a judge, but the run has none")
        })?;
        let question = JudgeRequest {
            attempt: self.attempt,
            task: self.task,
            subject: JudgeSubject::Answer { rubric, answer },
            votes,
            seed: derive_seed(self.seed, "rubric", &[place as u64]),
            deadline: self.deadline,
            cancel: self.cancel,
        };
        let response = judge.ask(question).await;
        let verdict = response.outcome()?;
        Ok((Finding::of(verdict == VoteValue::Met, words(&response, verdict)), response.usage))
    }
}

/// The distribution of votes, and a reason of the winning side.
fn words(response: &JudgeResponse, outcome: VoteValue) -> String {
    let parts = [
        (response.count(VoteValue::Met), "for it"),
        (response.count(VoteValue::NotMet), "against"),
        (response.count(VoteValue::Undecided), "undecided"),
        (response.missing.len(), "missing"),
    ];
    let counted: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}")).collect();
    let said = response.votes.iter().find(|vote| vote.verdict == outcome && !vote.reason.is_empty());
    let said = said.map_or(String::new(), |vote| format!(": {}", vote.reason));
    format!("votes: {}{said}", counted.join(", "))
}

#[cfg(test)]
mod tests {
    use clawrl_core::Vote;

    use super::*;

    #[test]
    fn votes_in_words() {
        let check = |verdicts: &[VoteValue], missing: usize, outcome, expected: &str| {
            let vote =
                |verdict: &VoteValue| Vote { verdict: *verdict, reason: format!("{verdict:?}."), hint: None };
            let fault = Fault::transient(Boundary::Policy, "x", "y");
            let response = JudgeResponse {
                votes: verdicts.iter().map(vote).collect(),
                missing: vec![fault; missing],
                usage: None,
            };
            assert_eq!(words(&response, outcome), expected);
        };
        let (met, not_met) = (VoteValue::Met, VoteValue::NotMet);
        check(&[met, not_met, met], 0, met, "votes: 2 for it, 1 against: Met.");
        check(&[not_met, not_met], 1, not_met, "votes: 2 against, 1 missing: NotMet.");
        check(&[VoteValue::Undecided], 0, VoteValue::Undecided, "votes: 1 undecided: Undecided.");
    }
}
