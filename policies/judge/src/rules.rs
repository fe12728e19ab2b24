//! A judge that is a list of rules about turns, before one that is asked where none of them speaks.
//!
//! R1. The first rule that matches and has a verdict gives it; without one, and without anybody to ask, a turn is undecided:
//! what nothing is said against merely did not fail. R2. Every rule that matches and has a hint gives it, [`MOST_HINTS`] at
//! most; without one, and without anybody to ask, there is none.
//!
//! Cancellation: as of the judge that is asked.

use std::sync::Arc;

use clawrl_core::{
    Ballot, Boundary, BoxFuture, Fault, Judge, Matter, Question, Role, SeenTurn, Verdict, Vote,
};
use regex::Regex;

/// Hints of one turn.
pub const MOST_HINTS: usize = 3;

/// Which text of a turn a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulePlace {
    /// What the policy said.
    Reply,
    /// What followed.
    NextState,
    /// What followed, where a user speaks there: outputs of programs begin with any word.
    User,
}

/// Says something of every turn that it matches.
#[derive(Debug, Clone)]
pub struct TurnRule {
    /// What it looks at.
    pub place: RulePlace,
    /// Matches anywhere in it.
    pub matches: Regex,
    /// What the turn is worth.
    pub verdict: Option<Verdict>,
    /// What should have been known before it.
    pub hint: Option<String>,
}

impl TurnRule {
    fn is_of(&self, turn: SeenTurn<'_>) -> bool {
        match self.place {
            RulePlace::Reply => self.matches.is_match(turn.reply),
            RulePlace::NextState => turn.next.is_some_and(|(_, text)| self.matches.is_match(text)),
            RulePlace::User => {
                turn.next.is_some_and(|(role, text)| role == Role::User && self.matches.is_match(text))
            }
        }
    }

    fn vote(&self, verdict: Verdict, hint: Option<String>) -> Vote {
        let place = match self.place {
            RulePlace::Reply => "reply",
            RulePlace::NextState => "next state",
            RulePlace::User => "what the user says next",
        };
        Vote { verdict, reason: format!("{place} matches `{}`", self.matches), hint }
    }
}

/// The rules, and who is asked where they say nothing.
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

    fn votes(&self, matter: Matter<'_>) -> Vec<Vote> {
        match matter {
            Matter::Answer { .. } => Vec::new(),
            Matter::Turn(turn) => {
                let spoken = self.rules.iter().filter(|rule| rule.is_of(turn));
                spoken.filter_map(|rule| Some(rule.vote(rule.verdict?, None))).take(1).collect()
            }
            Matter::Hint(turn) => {
                let spoken = self.rules.iter().filter(|rule| rule.is_of(turn));
                let hinted = spoken.filter_map(|rule| {
                    let hint = rule.hint.clone()?;
                    Some(rule.vote(Verdict::Met, Some(hint)))
                });
                hinted.take(MOST_HINTS).collect()
            }
        }
    }
}

impl Judge for RuleJudge {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Ballot> {
        let votes = self.votes(question.matter);
        let silent = |verdict| Vote { verdict, reason: "no rule matches".to_owned(), hint: None };
        let ballot = match (&self.otherwise, question.matter) {
            _ if !votes.is_empty() => Ballot { votes, ..Ballot::default() },
            (Some(judge), _) => return judge.ask(question),
            (None, Matter::Turn(_)) => {
                Ballot { votes: vec![silent(Verdict::Undecided)], ..Ballot::default() }
            }
            (None, Matter::Hint(_)) => Ballot { votes: vec![silent(Verdict::NotMet)], ..Ballot::default() },
            (None, Matter::Answer { .. }) => {
                let message = "rules judge turns, and no rubric";
                let missing = vec![Fault::permanent(Boundary::Grader, "judge-missing", message)];
                Ballot { missing, ..Ballot::default() }
            }
        };
        Box::pin(std::future::ready(ballot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(place: RulePlace, pattern: &str, verdict: Option<Verdict>, hint: Option<&str>) -> TurnRule {
        TurnRule { place, matches: Regex::new(pattern).unwrap(), verdict, hint: hint.map(str::to_owned) }
    }

    fn rules() -> RuleJudge {
        use RulePlace::{NextState, Reply};
        let rules = vec![
            rule(NextState, "^error", Some(Verdict::NotMet), Some("Mind the error.")),
            rule(Reply, "rm", None, Some("Keep files.")),
            rule(NextState, "done", Some(Verdict::Met), None),
            rule(Reply, ".", None, Some("Third.")),
            rule(Reply, ".", None, Some("Fourth.")),
        ];
        RuleJudge::new(rules, None)
    }

    fn check(reply: &str, next: Option<&str>, verdict: Verdict, hints: &[&str]) {
        let turn = SeenTurn { before: "", reply, next: next.map(|text| (Role::User, text)) };
        let judge = rules();
        let found: Vec<Verdict> = judge.votes(Matter::Turn(turn)).iter().map(|vote| vote.verdict).collect();
        let expected = if verdict == Verdict::Undecided { Vec::new() } else { vec![verdict] };
        assert_eq!(found, expected, "{reply}, {next:?}");
        let found = judge.votes(Matter::Hint(turn));
        let found: Vec<&str> = found.iter().filter_map(|vote| vote.hint.as_deref()).collect();
        assert_eq!(found, hints, "{reply}, {next:?}");
    }

    #[test]
    fn what_users_say_is_not_what_programs_say() {
        let rules = [rule(RulePlace::User, "^no", Some(Verdict::NotMet), None)];
        let judge = RuleJudge::new(rules.to_vec(), None);
        let votes = |role| {
            let turn = SeenTurn { before: "", reply: "", next: Some((role, "no such file")) };
            judge.votes(Matter::Turn(turn)).len()
        };
        assert_eq!((votes(Role::User), votes(Role::Tool)), (1, 0));
    }

    #[test]
    fn r1_r2_the_first_verdict_and_all_hints() {
        check(
            "rm a",
            Some("error: no\ndone"),
            Verdict::NotMet,
            &["Mind the error.", "Keep files.", "Third."],
        );
        check("ls", Some("all is done"), Verdict::Met, &["Third.", "Fourth."]);
        check("ls", Some("a b"), Verdict::Undecided, &["Third.", "Fourth."]);
        check("", None, Verdict::Undecided, &[]);
    }
}
