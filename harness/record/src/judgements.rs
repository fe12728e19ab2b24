//! `judgements.jsonl`: judgements of turns, in the run of a training.
//!
//! One row per judged turn, in the order of attempts. A row is written before training uses
//! it. Like metrics, rows are not covered by the durability of resolutions: a crash may lose the last ones. Attempts that
//! a training discarded when it returned to a checkpoint keep their rows; repeating them makes other attempts.

use std::iter;

use clawrl_core::{AttemptId, JudgeResponse, UsageTotal};
use clawrl_redact::Redactor;
use serde::{Deserialize, Serialize};

/// Judgements of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedTurn {
    /// The attempt.
    pub attempt: AttemptId,
    /// Number of the turn, from 0.
    pub turn: u32,
    /// The value of the turn, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Judgement>,
    /// The hint for the turn, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Judgement>,
}

impl JudgedTurn {
    /// Removes the values of secrets from what the judges wrote.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        for judgement in self.process.iter_mut().chain(&mut self.hint) {
            let votes = judgement
                .votes
                .iter_mut()
                .flat_map(|vote| iter::once(&mut vote.reason).chain(&mut vote.hint));
            for text in judgement.missing.iter_mut().chain(votes) {
                redactor.redact_in_place(text);
            }
        }
    }
}

/// The votes on one request, and their result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// 1, 0 or -1; `None` where too few votes came.
    pub verdict: Option<i8>,
    /// Votes cast.
    pub votes: Vec<CastVote>,
    /// Why the others did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Usage of the votes, if the judge reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotal>,
}

/// One vote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CastVote {
    /// 1, 0 or -1.
    pub verdict: i8,
    /// Why, in the judge's words.
    pub reason: String,
    /// The hint, of a vote for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<&JudgeResponse> for Judgement {
    fn from(response: &JudgeResponse) -> Self {
        let cast = response.votes.iter().map(|vote| CastVote {
            verdict: vote.verdict.sign(),
            reason: vote.reason.clone(),
            hint: vote.hint.clone(),
        });
        Self {
            verdict: response.majority().map(clawrl_core::VoteValue::sign),
            votes: cast.collect(),
            missing: response
                .missing
                .iter()
                .map(|fault| format!("{}: {}", fault.code, fault.message))
                .collect(),
            usage: response.usage,
        }
    }
}

impl Judgement {
    /// The distinct hints of the votes for a hint, if these are the majority.
    #[must_use]
    pub fn hints(&self) -> Vec<&str> {
        let mut hints: Vec<&str> = Vec::new();
        for hint in self.votes.iter().filter_map(|vote| vote.hint.as_deref()) {
            if self.verdict == Some(1) && !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    /// The share of votes that agree with the most frequent value; `None` for fewer than two votes.
    #[must_use]
    pub fn agreement(&self) -> Option<f64> {
        let count = |of: i8| self.votes.iter().filter(|vote| vote.verdict == of).count();
        let most = [1, 0, -1].into_iter().map(count).max().unwrap_or_default();
        (self.votes.len() > 1).then(|| most as f64 / self.votes.len() as f64)
    }

    /// A short summary, with a reason of the majority.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |of: i8| self.votes.iter().filter(|vote| vote.verdict == of).count();
        let parts = [
            (count(1), "for it"),
            (count(-1), "against"),
            (count(0), "undecided"),
            (self.missing.len(), "missing"),
        ];
        let counted = parts.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}"));
        let counted = counted.collect::<Vec<_>>().join(", ");
        let Some(verdict) = self.verdict else {
            let why = self.missing.first().map_or(String::new(), |why| format!("; {why}"));
            return format!("unjudged ({counted}){why}");
        };
        let said = self.votes.iter().find(|vote| vote.verdict == verdict && !vote.reason.is_empty());
        let said = said.map_or(String::new(), |vote| format!(": {}", vote.reason));
        format!("{verdict} ({counted}){said}")
    }
}

/// Rows of one attempt. A torn last line is ignored.
///
/// # Errors
/// Number of the line, from 1, and its error.
pub(crate) fn of_attempt(
    bytes: &[u8],
    attempt: AttemptId,
) -> Result<Vec<JudgedTurn>, (usize, serde_json::Error)> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate();
    let rows = lines.map(|(index, line)| serde_json::from_slice(line).map_err(|error| (index + 1, error)));
    rows.filter(|row| row.as_ref().map_or(true, |row: &JudgedTurn| row.attempt == attempt)).collect()
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Boundary, Fault, SlotId, Vote, VoteValue};

    use super::*;

    fn response(votes: &[(VoteValue, Option<&str>)], missing: usize) -> JudgeResponse {
        let vote = |(verdict, hint): &(VoteValue, Option<&str>)| Vote {
            verdict: *verdict,
            reason: format!("{verdict:?}."),
            hint: hint.map(str::to_owned),
        };
        let fault = Fault::transient(Boundary::Policy, "limit", "too late");
        JudgeResponse { votes: votes.iter().map(vote).collect(), missing: vec![fault; missing], usage: None }
    }

    #[test]
    fn a_judgement_in_words() {
        use VoteValue::{Met, NotMet, Undecided};
        let check = |votes: &[(VoteValue, Option<&str>)], missing, expected: &str, hints: &[&str]| {
            let judgement = Judgement::from(&response(votes, missing));
            assert_eq!((judgement.summary().as_str(), judgement.hints().as_slice()), (expected, hints));
        };
        let (two, one) = ((Met, Some("Look in b.")), (Met, Some("Ask.")));
        check(
            &[two, (NotMet, None), one, two],
            1,
            "1 (3 for it, 1 against, 1 missing): Met.",
            &["Look in b.", "Ask."],
        );
        check(&[two, (NotMet, None)], 1, "0 (1 for it, 1 against, 1 missing)", &[]);
        check(&[(Undecided, None)], 0, "0 (1 undecided): Undecided.", &[]);
        check(&[two], 2, "unjudged (1 for it, 2 missing); limit: too late", &[]);
    }

    #[test]
    fn agreement_counts_votes_cast() {
        use VoteValue::{Met, NotMet, Undecided};
        let check = |verdicts: &[VoteValue], expected| {
            let votes: Vec<_> = verdicts.iter().map(|&verdict| (verdict, None)).collect();
            assert_eq!(Judgement::from(&response(&votes, 1)).agreement(), expected, "{verdicts:?}");
        };
        check(&[Met, Met], Some(1.0));
        check(&[Met, NotMet, Undecided, Met], Some(0.5));
        check(&[Undecided], None);
    }

    #[test]
    fn rows_of_an_attempt_skip_a_torn_row() {
        let attempt = |slot| AttemptId { slot: SlotId(slot), number: 1 };
        let row = |slot, turn| JudgedTurn {
            attempt: attempt(slot),
            turn,
            process: Some(Judgement::from(&response(&[(VoteValue::Met, None)], 2))),
            hint: None,
        };
        let rows = [row(1, 0), row(2, 0), row(1, 1)];
        let mut bytes: Vec<u8> = Vec::new();
        for row in &rows {
            bytes.extend(serde_json::to_vec(row).unwrap());
            bytes.push(b'\n');
        }
        bytes.extend(b"{\"attempt\":");
        assert_eq!(of_attempt(&bytes, attempt(1)).unwrap(), [rows[0].clone(), rows[2].clone()]);
        bytes.push(b'\n');
        assert_eq!(of_attempt(&bytes, attempt(1)).unwrap_err().0, 4);
        assert_eq!(of_attempt(b"", attempt(1)).unwrap(), []);
    }
}
