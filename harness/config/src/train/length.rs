//! Penalty of long replies: file form, checks, and plan form.
//!
//! I1. No setting is ignored: a setting without effect is refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::check_rl::{ABOVE_0, MULTIPLE};
use super::file::RlFile;
use super::plan::RlPlan;
use crate::file::Located;
use crate::problem::Problem;

/// A punishment of attempts with long replies, which rises while replies are longer in the mean than the target, and falls to 0 while they are not.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Length")]
pub(crate) struct LengthFile {
    /// The most that an attempt earns less, reached within ten updates above the target, by attempts whose mean reply is twice the
    /// target or more.
    #[schemars(range(min = 0.0))]
    coefficient: Located<f64>,
    /// Multiple of the first update's mean reply above which the punishment rises. Default: 1.2.
    #[schemars(range(min = 1.0))]
    target: Option<Located<f64>>,
}

/// A punishment of long replies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LengthPlan {
    /// Maximum penalty of an attempt.
    pub coefficient: f64,
    /// Multiple of the first update's mean reply above which it rises.
    pub target: f64,
}

impl Checker {
    pub(super) fn length(&mut self, file: &LengthFile) -> LengthPlan {
        let findings = &mut self.findings;
        LengthPlan {
            coefficient: findings.real("coefficient", Some(&file.coefficient), &ABOVE_0, 0.5),
            target: findings.real("target", file.target.as_ref(), &MULTIPLE, 1.2),
        }
    }

    /// Refuses a penalty without effect on learning, and one that starts only after a guard halts the training.
    pub(super) fn length_fits(&mut self, file: &RlFile, plan: &RlPlan) {
        let (Some(given), Some(length)) = (&file.length, plan.length) else { return };
        if plan.outcome_weight == 0.0 {
            let message = "`length` lowers rewards, which count nothing beside this teacher";
            let help = "leave it out, or write an `outcome_weight` above 0";
            self.problem(given.coefficient.span, message, "has no effect", help);
        }
        let guards = plan.guards;
        if guards.updates > 0 && length.target >= guards.longest {
            let message = format!(
                "replies of {} times the first length halt the training, and are punished from {} times on",
                guards.longest, length.target
            );
            let problem = Problem::new(message, "write a lower `target`, or a higher `longest` of `guards:`");
            let longest = file.guards.as_ref().and_then(|guards| guards.longest.as_ref());
            let (span, reason) = match (&given.target, longest) {
                (Some(target), longest) => (target.span, longest.map(|longest| (longest.span, "halts"))),
                (None, Some(longest)) => (longest.span, None),
                (None, None) => (given.coefficient.span, None),
            };
            self.contradiction(problem, (span, "never reached"), reason);
        }
    }
}
