//! Judges of turns: file form, checks, and plan form.
//!
//! I1. A judge is asked only for used results: verdicts if process rewards count, hints if a teacher reads them.
//! I2. No setting is ignored: a setting without effect is refused.

use std::fmt;
use std::path::Path;

use clawrl_core::RemoteSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::distillation::HintSource;
use super::file::RlFile;
use super::plan::RlPlan;
use crate::bounds;
use crate::file::Located;
use crate::problem::Problem;
use crate::source::Span;
use crate::value;

/// Default seconds that the turns of an attempt wait for their votes.
const TIMEOUT_SECS: u32 = 60;

/// Minimum size of a group for which process rewards are informative.
const MIN_GROUP: u32 = 3;

/// Who says of single turns what they were worth, or what should have been known before them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Judging")]
pub(crate) struct JudgingFile {
    /// A policy file, relative to this file: the model that votes. Default: none, the rules alone.
    judge: Option<Located<String>>,
    /// How often the model is asked about a turn; half of the votes have to come, and the strict majority of them decides. Default: 3.
    #[schemars(range(min = 1, max = bounds::MAX_VOTES))]
    votes: Option<Located<i64>>,
    /// How long an attempt's turns wait for their votes, from its end on. Then it is learned from without those that are missing.
    /// Default: 60.
    #[schemars(range(min = 1, max = bounds::MAX_JUDGING_SECS))]
    timeout_secs: Option<Located<i64>>,
    /// Questions that are put to the model at once, each with all of its votes. Default: 32.
    #[schemars(range(min = 1, max = bounds::MAX_QUESTIONS))]
    concurrency: Option<Located<i64>>,
    /// Rules that speak before the model does. The first that matches and has a verdict gives it; all that match and have a
    /// hint give theirs.
    #[serde(default)]
    rules: Vec<Located<RuleFile>>,
}

impl JudgingFile {
    /// Whether the file names neither a model nor rules.
    pub(super) fn is_of_nobody(&self) -> bool {
        self.judge.is_none() && self.rules.is_empty()
    }
}

/// What is said of every turn that a pattern matches: a verdict, a hint, or both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TurnRule")]
struct RuleFile {
    /// What is looked at.
    #[serde(rename = "where")]
    place: RuleTarget,
    /// A regular expression that matches anywhere in it.
    matches: Located<String>,
    /// What the turn is worth: 1, 0 or -1.
    #[schemars(range(min = -1, max = 1))]
    verdict: Option<Located<i64>>,
    /// What should have been known before the turn, for a teacher with `hints: [judge]`.
    hint: Option<Located<String>>,
}

/// Which text of a turn a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RuleTarget {
    /// What the policy said.
    Reply,
    /// What followed.
    NextState,
    /// What followed, where a user speaks there.
    User,
}

/// Judge of turns: a model, rules, or rules before a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgingPlan {
    /// The model that votes.
    pub judge: Option<Box<RemoteSpec>>,
    /// Votes on a question.
    pub votes: u32,
    /// Seconds that the turns of an attempt wait for their votes.
    pub timeout_secs: u32,
    /// Questions at once.
    pub concurrency: u32,
    /// In the order in which they are looked at.
    pub rules: Vec<RulePlan>,
}

/// Verdict or hint for every turn that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulePlan {
    /// Text that the pattern is matched against.
    #[serde(rename = "where")]
    pub place: RuleTarget,
    /// A regular expression.
    pub matches: String,
    /// 1, 0 or -1.
    pub verdict: Option<i8>,
    /// Knowledge that would have helped before the turn.
    pub hint: Option<String>,
}

impl fmt::Display for JudgingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = match self.rules.len() {
            0 => None,
            1 => Some("1 rule".to_owned()),
            count => Some(format!("{count} rules")),
        };
        let model = self
            .judge
            .as_ref()
            .map(|judge| format!("{} votes of {}, {} s at most", self.votes, judge.model, self.timeout_secs));
        let parts: Vec<String> = rules.into_iter().chain(model).collect();
        f.write_str(&parts.join(", then "))
    }
}

impl RlPlan {
    /// Whether judges are asked for verdicts, which is so if process rewards are part of the outcome's term.
    #[must_use]
    pub fn judges_turns(&self) -> bool {
        self.judging.is_some() && self.process_weight > 0.0 && self.outcome_weight > 0.0
    }

    /// Whether judges are asked for hints.
    #[must_use]
    pub fn judges_hint(&self) -> bool {
        self.judging.is_some() && self.reads_hints_of_judges()
    }

    fn reads_hints_of_judges(&self) -> bool {
        self.distillation.as_ref().is_some_and(|taught| taught.hints.contains(&HintSource::Judge))
    }
}

impl Checker {
    pub(super) fn judging(&mut self, folder: &Path, file: &JudgingFile) -> JudgingPlan {
        let findings = &mut self.findings;
        let votes = findings.whole("votes", file.votes.as_ref(), 1..=bounds::MAX_VOTES, 3);
        let secs = 1..=bounds::MAX_JUDGING_SECS;
        let timeout_secs = findings.whole("timeout_secs", file.timeout_secs.as_ref(), secs, TIMEOUT_SECS);
        let questions = 1..=bounds::MAX_QUESTIONS;
        let concurrency = findings.whole("concurrency", file.concurrency.as_ref(), questions, 32);
        let given = [
            ("votes", &file.votes),
            ("timeout_secs", &file.timeout_secs),
            ("concurrency", &file.concurrency),
        ];
        for (key, number) in given {
            if let Some(number) = number.as_ref().filter(|_| file.judge.is_none()) {
                let message = format!("`{key}` is of a model that votes, and rules do not");
                let help = "leave it out, or name the policy file of a model: `judge: judge.yaml`";
                self.problem(number.span, message, "never looked at", help);
            }
        }
        let rules = file.rules.iter().map(|rule| self.rule(rule)).collect();
        let judge = file.judge.as_ref().and_then(|judge| self.judge(folder, judge));
        let judge = judge.map(|judge| Box::new(judge.judging()));
        JudgingPlan { judge, votes, timeout_secs, concurrency, rules }
    }

    fn rule(&mut self, file: &Located<RuleFile>) -> RulePlan {
        if let Err(bad) = value::regex(&file.matches) {
            self.problem(file.matches.span, bad.message, "this pattern", bad.help);
        }
        let verdict = file.verdict.as_ref().map(|number| match i8::try_from(number.value) {
            Ok(verdict @ -1..=1) => verdict,
            _ => {
                let message = format!("`verdict` cannot be {}", number.value);
                let help = "write 1 for a good turn, -1 for a bad one, 0 for neither";
                self.problem(number.span, message, "out of bounds", help);
                0
            }
        });
        if let Some(hint) = file.hint.as_ref().filter(|hint| hint.trim().is_empty()) {
            self.problem(hint.span, "the hint is empty", "says nothing", "write a sentence, or leave it out");
        }
        if file.verdict.is_none() && file.hint.is_none() {
            let help = "give it a `verdict`, a `hint`, or both";
            self.problem(
                file.span,
                "the rule says nothing of what it matches",
                "neither verdict nor hint",
                help,
            );
        }
        let hint = file.hint.as_ref().map(|hint| hint.trim().to_owned());
        RulePlan { place: file.place, matches: file.matches.value.clone(), verdict, hint }
    }

    /// Checks the combination of settings (I1).
    pub(super) fn judging_fits(&mut self, file: &RlFile, plan: &RlPlan) {
        let hints = file.distillation.as_ref().and_then(|taught| taught.hints.as_ref());
        let Some(judging) = &file.judging else {
            if let (true, Some(hints)) = (plan.reads_hints_of_judges(), hints) {
                let help = "add `judging: { judge: judge.yaml }` to `rl`, or leave `judge` out";
                self.problem(
                    hints.span,
                    "hints are to come from a judge, and there is none",
                    "names `judge`",
                    help,
                );
            }
            return;
        };
        if judging.value.is_of_nobody() {
            let help = "name the policy file of a model, `judge: judge.yaml`, or give `rules:`";
            self.problem(judging.span, "there is nobody who judges", "neither a model nor rules", help);
        }
        let (rewards, hinted) = (plan.judges_turns(), plan.judges_hint());
        if !rewards && !hinted {
            let message = "nothing is made of what judges say";
            let help = "write `process_weight: 0.5` for verdicts on turns, or `distillation: { hints: [judge] }` for hints";
            self.problem(judging.span, message, "never asked", help);
            return;
        }
        for rule in &judging.value.rules {
            if let Some(verdict) = rule.verdict.as_ref().filter(|_| !rewards) {
                let message = "a verdict has no effect where process rewards do not count";
                self.problem(
                    verdict.span,
                    message,
                    "never looked at",
                    "leave it out, or write a `process_weight` and an `outcome_weight` above 0",
                );
            }
            if let Some(hint) = rule.hint.as_ref().filter(|_| !hinted) {
                let message = "a hint has no effect without a teacher that reads those of judges";
                let help = "leave it out, or write `distillation: { hints: [judge] }`";
                self.problem(hint.span, message, "never read", help);
            }
        }
        if rewards && plan.group_size < MIN_GROUP {
            let message = format!(
                "verdicts on turns are compared within a group, and one of {} says nothing",
                plan.group_size
            );
            let problem = Problem::new(message, format!("write `group_size: {MIN_GROUP}` or more"));
            let reason: Option<(Span, &str)> = file.group_size.as_ref().map(|size| (size.span, "the group"));
            self.contradiction(problem, (judging.span, "asks about turns"), reason);
        }
    }
}
