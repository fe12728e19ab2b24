//! A judge made of rules about turns, with another judge for turns that no rule matches.
//!
//! R1. The first matching rule with a value decides. Without one, and without another judge, a turn is undecided:
//! it merely did not fail. R2. Every matching rule with a hint gives it, up to [`MAX_HINTS`];
//! without one, and without another judge, there is no hint.
//!
//! Cancellation: as for the other judge.

use std::sync::Arc;

use clawrl_core::{
    Boundary, BoxFuture, Fault, Judge, JudgeRequest, JudgeResponse, JudgeSubject, Role, TurnContext, Vote,
    VoteValue,
};
use regex::Regex;

/// Hints of one turn.
pub const MAX_HINTS: usize = 3;

/// Text of a turn that a rule is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTarget {
    /// The reply of the policy.
    Reply,
    /// The next state.
    NextState,
    /// The next state, if it is a user message: program output may start with any word.
    User,
}

/// Says something of every turn that it matches.
#[derive(Debug, Clone)]
pub struct TurnRule {
    /// The text to match.
    pub place: RuleTarget,
    /// Matches anywhere in it.
    pub matches: Regex,
    /// Value of the turn.
    pub verdict: Option<VoteValue>,
    /// Hint for the turn.
    pub hint: Option<String>,
}

impl TurnRule {
    fn is_of(&self, turn: TurnContext<'_>) -> bool {
        match self.place {
            RuleTarget::Reply => self.matches.is_match(turn.reply),
            RuleTarget::NextState => turn.next.is_some_and(|(_, text)| self.matches.is_match(text)),
            RuleTarget::User => {
                turn.next.is_some_and(|(role, text)| role == Role::User && self.matches.is_match(text))
            }
        }
    }

    fn vote(&self, verdict: VoteValue, hint: Option<String>) -> Vote {
        let place = match self.place {
            RuleTarget::Reply => "reply",
            RuleTarget::NextState => "next state",
            RuleTarget::User => "what the user says next",
        };
        Vote { verdict, reason: format!("{place} matches `{}`", self.matches), hint }
    }
}

/// The rules, and the judge for turns that they do not match.
pub struct RuleJudge {
    rules: Vec<TurnRule>,
    otherwise: Option<Arc<dyn Judge>>,
}

impl RuleJudge {
    /// Rules before another judge, if there is one.
    #[must_use]
    pub fn new(rules: Vec<TurnRule>, otherwise: Option<Arc<dyn Judge>>) -> Self {
        Self { rules, otherwise }
    }

    fn votes(&self, subject: JudgeSubject<'_>) -> Vec<Vote> {
        match subject {
            JudgeSubject::Answer { .. } => Vec::new(),
            JudgeSubject::Turn(turn) => {
                let spoken = self.rules.iter().filter(|rule| rule.is_of(turn));
                spoken.filter_map(|rule| Some(rule.vote(rule.verdict?, None))).take(1).collect()
            }
            JudgeSubject::Hint(turn) => {
                let spoken = self.rules.iter().filter(|rule| rule.is_of(turn));
                let hinted = spoken.filter_map(|rule| {
                    let hint = rule.hint.clone()?;
                    Some(rule.vote(VoteValue::Met, Some(hint)))
                });
                hinted.take(MAX_HINTS).collect()
            }
        }
    }
}

impl Judge for RuleJudge {
    fn ask<'a>(&'a self, question: JudgeRequest<'a>) -> BoxFuture<'a, JudgeResponse> {
        let votes = self.votes(question.subject);
        let silent = |verdict| Vote { verdict, reason: "no rule matches".to_owned(), hint: None };
        let response = match (&self.otherwise, question.subject) {
            _ if !votes.is_empty() => JudgeResponse { votes, ..JudgeResponse::default() },
            (Some(judge), _) => return judge.ask(question),
            (None, JudgeSubject::Turn(_)) => {
                JudgeResponse { votes: vec![silent(VoteValue::Undecided)], ..JudgeResponse::default() }
            }
            (None, JudgeSubject::Hint(_)) => {
                JudgeResponse { votes: vec![silent(VoteValue::NotMet)], ..JudgeResponse::default() }
            }
            (None, JudgeSubject::Answer { .. }) => {
                let message = "rules judge turns only, not rubrics";
                let missing = vec![Fault::permanent(Boundary::Grader, "judge-missing", message)];
                JudgeResponse { missing, ..JudgeResponse::default() }
            }
        };
        Box::pin(std::future::ready(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(place: RuleTarget, pattern: &str, verdict: Option<VoteValue>, hint: Option<&str>) -> TurnRule {
        TurnRule { place, matches: Regex::new(pattern).unwrap(), verdict, hint: hint.map(str::to_owned) }
    }

    fn rules() -> RuleJudge {
        use RuleTarget::{NextState, Reply};
        let rules = vec![
            rule(NextState, "^error", Some(VoteValue::NotMet), Some("Mind the error.")),
            rule(Reply, "rm", None, Some("Keep files.")),
            rule(NextState, "done", Some(VoteValue::Met), None),
            rule(Reply, ".", None, Some("Third.")),
            rule(Reply, ".", None, Some("Fourth.")),
        ];
        RuleJudge::new(rules, None)
    }

    fn check(reply: &str, next: Option<&str>, verdict: VoteValue, hints: &[&str]) {
        let turn = TurnContext { before: "", reply, next: next.map(|text| (Role::User, text)) };
        let judge = rules();
        let found: Vec<VoteValue> =
            judge.votes(JudgeSubject::Turn(turn)).iter().map(|vote| vote.verdict).collect();
        let expected = if verdict == VoteValue::Undecided { Vec::new() } else { vec![verdict] };
        assert_eq!(found, expected, "{reply}, {next:?}");
        let found = judge.votes(JudgeSubject::Hint(turn));
        let found: Vec<&str> = found.iter().filter_map(|vote| vote.hint.as_deref()).collect();
        assert_eq!(found, hints, "{reply}, {next:?}");
    }

    #[test]
    fn user_rules_ignore_program_output() {
        let rules = [rule(RuleTarget::User, "^no", Some(VoteValue::NotMet), None)];
        let judge = RuleJudge::new(rules.to_vec(), None);
        let votes = |role| {
            let turn = TurnContext { before: "", reply: "", next: Some((role, "no such file")) };
            judge.votes(JudgeSubject::Turn(turn)).len()
        };
        assert_eq!((votes(Role::User), votes(Role::Tool)), (1, 0));
    }

    #[test]
    fn r1_r2_the_first_verdict_and_all_hints() {
        check(
            "rm a",
            Some("error: no\ndone"),
            VoteValue::NotMet,
            &["Mind the error.", "Keep files.", "Third."],
        );
        check("ls", Some("all is done"), VoteValue::Met, &["Third.", "Fourth."]);
        check("ls", Some("a b"), VoteValue::Undecided, &["Third.", "Fourth."]);
        check("", None, VoteValue::Undecided, &[]);
    }
}
