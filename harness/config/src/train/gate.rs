//! Acceptance checks of new versions before they act: file form, checks, and plan form.
//!
//! I1. Without a gate no version is checked. I2. An interval that no update reaches is refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::check_rl::ABOVE_0;
use crate::bounds;
use crate::file::{Located, present_or_default};
use crate::numbers::Reals;

const POINTS: Reals = Reals { accepts: |points| (0.0..=100.0).contains(&points), words: "from 0 to 100" };

/// What a new version has to pass before its weights act. One that does not is given up: parameters, moments and a following teacher are
/// those of the last accepted version again, which goes on acting meanwhile.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Gate")]
pub(crate) struct GateFile {
    /// Most divergence from the last accepted version, estimated at the replies of the update's batch, mean over tokens,
    /// in nats. Default: 0.1.
    #[schemars(range(min = 0.0))]
    max_kl: Option<Located<f64>>,
    /// Versions in a row that may be rejected before the training halts. Default: 3.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    failures: Option<Located<i64>>,
    /// Evaluations on held-out tasks before a version acts. Left out: none. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    held_out: Option<HeldOutGateFile>,
}

/// Which versions are evaluated before they act, and by how much they may be worse.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeldOutGate")]
pub(crate) struct HeldOutGateFile {
    /// Updates from one such evaluation to the next. Default: 25.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    every_updates: Option<Located<i64>>,
    /// By how many points of a percentage the success may be below that of the last accepted evaluation. Default: 5.
    #[schemars(range(min = 0.0, max = 100.0))]
    max_drop_points: Option<Located<f64>>,
}

/// Acceptance checks of a version before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GatePlan {
    /// Maximum divergence from the last accepted version, nats per token.
    pub max_kl: f64,
    /// Versions in a row that are rejected before the training halts; at least 1.
    pub failures: u32,
    /// Evaluations before a version acts, if any.
    pub held_out: Option<HeldOutGatePlan>,
}

/// Evaluations before a version acts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeldOutGatePlan {
    /// Updates between evaluations; at least 1.
    pub every_updates: u32,
    /// By how many points the success may be below that of the last accepted evaluation.
    pub max_drop_points: f64,
}

impl GatePlan {
    /// Whether the version of this update is evaluated first.
    #[must_use]
    pub fn evaluates(&self, update: u32) -> bool {
        self.held_out
            .is_some_and(|held_out| update > 0 && update.is_multiple_of(held_out.every_updates.max(1)))
    }
}

impl Checker {
    /// `updates`: of the whole training.
    pub(super) fn gate(&mut self, file: &GateFile, updates: u32) -> GatePlan {
        let findings = &mut self.findings;
        let most = bounds::MAX_UPDATES;
        let max_kl = findings.real("max_kl", file.max_kl.as_ref(), &ABOVE_0, 0.1);
        let failures = findings.whole("failures", file.failures.as_ref(), 1..=most, 3);
        let held_out = file.held_out.as_ref().map(|held_out| HeldOutGatePlan {
            every_updates: findings.whole(
                "every_updates",
                held_out.every_updates.as_ref(),
                1..=most,
                25.min(updates.max(1)),
            ),
            max_drop_points: findings.real(
                "max_drop_points",
                held_out.max_drop_points.as_ref(),
                &POINTS,
                5.0,
            ),
        });
        if let Some(given) = file.held_out.as_ref().and_then(|held_out| held_out.every_updates.as_ref())
            && held_out.is_some_and(|held_out| held_out.every_updates > updates)
        {
            let message = format!("of {updates} updates none is evaluated before it acts");
            let help = format!("write `every_updates: {updates}` or less, or leave out `held_out`");
            self.problem(given.span, message, "never reached", help);
        }
        GatePlan { max_kl, failures, held_out }
    }
}
