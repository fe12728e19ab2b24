//! Checks of the policy gradient: the objective determines defaults, and settings that the surrogate does not use are refused.

use super::check::Checker;
use super::check_rl::ABOVE_0;
use super::file::LossFile;
use super::importance::importance;
use super::plan::{EntropyPlan, Importance, KlPlan, LossPlan, Objective, Surrogate};
use crate::file::Located;
use crate::numbers::Reals;
use crate::problem::Problem;

const CLIP_LOW: Reals = Reals { accepts: |clip| clip > 0.0 && clip < 1.0, words: "above 0 and below 1" };
const DUAL_CLIP: Reals = Reals { accepts: |clip| clip > 1.0, words: "above 1, or null for no bound" };
const FLOOR: Reals = Reals { accepts: |floor| floor > 0.0 && floor <= 1.0, words: "above 0 and up to 1" };
const CISPO_CAP: Reals = Reals { accepts: |cap| cap >= 1.0, words: "of 1 or more" };

/// A key, its written value, the surrogates that use it, and why others do not.
type Use<'a> = (&'a str, &'a Option<Located<f64>>, &'a [Surrogate], &'a str);

impl Checker {
    pub(super) fn loss(&mut self, file: &LossFile, objective: Objective) -> LossPlan {
        let of_objective = objective.loss();
        let surrogate = file.surrogate.unwrap_or(of_objective.surrogate);
        let default = match surrogate == of_objective.surrogate {
            true => of_objective,
            // Bounds of another kind of ratio mean something else.
            false => {
                let (clip_low, clip_high) = LossPlan::clip(surrogate);
                let importance = match surrogate {
                    Surrogate::Token => Importance::default(),
                    Surrogate::Sequence => Importance::Geometric(2.0),
                    Surrogate::Cispo => Importance::None,
                };
                LossPlan { surrogate, clip_low, clip_high, importance, ..of_objective }
            }
        };
        self.refuse_unused(file, surrogate);
        let findings = &mut self.findings;
        let plan = LossPlan {
            surrogate,
            clip_low: findings.real("clip_low", file.clip_low.as_ref(), &CLIP_LOW, default.clip_low),
            clip_high: findings.real("clip_high", file.clip_high.as_ref(), &ABOVE_0, default.clip_high),
            dual_clip: (file.dual_clip.as_ref())
                .map(|clip| findings.real("dual_clip", Some(clip), &DUAL_CLIP, 3.0)),
            cispo_cap: findings.real("cispo_cap", file.cispo_cap.as_ref(), &CISPO_CAP, default.cispo_cap),
            importance: importance(findings, file.importance.as_ref(), default.importance),
            aggregation: file.aggregation.unwrap_or(default.aggregation),
            kl: file.kl.as_ref().map(|kl| KlPlan {
                coefficient: findings.real("coefficient", Some(&kl.coefficient), &ABOVE_0, 0.01),
                estimator: kl.estimator.unwrap_or_default(),
            }),
            entropy: file.entropy.as_ref().map(|entropy| EntropyPlan {
                coefficient: findings.real("coefficient", Some(&entropy.coefficient), &ABOVE_0, 0.01),
                floor: findings.real("floor", entropy.floor.as_ref(), &FLOOR, 0.3),
            }),
        };
        if let Some(given) = &file.importance {
            self.importance_fits(given.span, plan.importance, surrogate);
        }
        plan
    }

    /// Refuses settings without effect.
    fn refuse_unused(&mut self, file: &LossFile, surrogate: Surrogate) {
        let LossFile { clip_low, clip_high, dual_clip, cispo_cap, .. } = file;
        let keys: [Use<'_>; 4] = [
            (
                "clip_low",
                clip_low,
                &[Surrogate::Token, Surrogate::Sequence],
                "`cispo` has `cispo_cap` instead",
            ),
            (
                "clip_high",
                clip_high,
                &[Surrogate::Token, Surrogate::Sequence],
                "`cispo` has `cispo_cap` instead",
            ),
            ("dual_clip", dual_clip, &[Surrogate::Token], "it bounds ratios of single tokens"),
            (
                "cispo_cap",
                cispo_cap,
                &[Surrogate::Cispo],
                "the others have `clip_low` and `clip_high` instead",
            ),
        ];
        for (key, given, users, why) in keys {
            let Some(given) = given.as_ref().filter(|_| !users.contains(&surrogate)) else { continue };
            let message = format!("the surrogate `{}` has no use for `{key}`: {why}", name(surrogate));
            let users: Vec<String> =
                users.iter().map(|user| format!("`surrogate: {}`", name(*user))).collect();
            let help = format!("leave it out, or write {}", users.join(" or "));
            self.problem(given.span, message, "never looked at", help);
        }
    }

    fn importance_fits(&mut self, span: crate::source::Span, importance: Importance, surrogate: Surrogate) {
        let (fits, help) = match surrogate {
            Surrogate::Token => return,
            Surrogate::Sequence => (
                matches!(importance, Importance::None | Importance::Sequence(_) | Importance::Geometric(_)),
                "write `{ geometric: 2 }`, `{ sequence: 2 }` or `none`",
            ),
            Surrogate::Cispo => (importance == Importance::None, "write `none`, or leave it out"),
        };
        if fits {
            return;
        }
        let message = match surrogate {
            Surrogate::Cispo => "`cispo` weighs tokens by their ratio already",
            Surrogate::Token | Surrogate::Sequence => "tokens that share a ratio share a correction",
        };
        self.contradiction(Problem::new(message, help), (span, "does not go with the surrogate"), None);
    }
}

fn name(surrogate: Surrogate) -> &'static str {
    match surrogate {
        Surrogate::Token => "token",
        Surrogate::Sequence => "sequence",
        Surrogate::Cispo => "cispo",
    }
}
