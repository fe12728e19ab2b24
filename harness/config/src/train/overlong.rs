//! Treatment of truncated replies and attempts: file form, checks, and plan form.
//!
//! I1. No setting is ignored: a setting without effect is refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::file::RlFile;
use super::plan::RlPlan;

/// What becomes of replies that were cut at `max_new_tokens`, and of attempts that their number of turns or their time cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OverlongKind {
    /// They are trained on like others.
    #[default]
    Train,
    /// Their tokens are not trained on; rewards stay in the baseline.
    Mask,
    /// They earn less, and so do replies that come near to the limit.
    Soft,
}

/// The same, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlongPlan {
    /// See [`OverlongKind::Train`].
    #[default]
    Train,
    /// See [`OverlongKind::Mask`].
    Mask,
    /// See [`OverlongKind::Soft`].
    Soft {
        /// Tokens before the limit over which the reward falls by 1.
        soft_tokens: u32,
    },
}

impl Checker {
    /// `most`: maximum tokens of a reply.
    pub(super) fn overlong(&mut self, file: &RlFile, most: u32) -> OverlongPlan {
        let kind = file.overlong.as_ref().map_or(OverlongKind::Train, |kind| kind.value);
        if let Some(given) = file.soft_tokens.as_ref().filter(|_| kind != OverlongKind::Soft) {
            let help = "leave it out, or write `overlong: soft`";
            self.problem(given.span, "only `overlong: soft` has `soft_tokens`", "never looked at", help);
        }
        match kind {
            OverlongKind::Train => OverlongPlan::Train,
            OverlongKind::Mask => OverlongPlan::Mask,
            OverlongKind::Soft => {
                // The share that the paper has: 4096 of 20480.
                let (usual, given) = ((most / 5).max(1), file.soft_tokens.as_ref());
                let soft_tokens = self.findings.whole("soft_tokens", given, 1..=i64::from(most), usual);
                OverlongPlan::Soft { soft_tokens }
            }
        }
    }

    /// Refuses a penalty without effect on learning.
    pub(super) fn overlong_fits(&mut self, file: &RlFile, plan: &RlPlan) {
        let is_soft = matches!(plan.overlong, OverlongPlan::Soft { .. });
        if let Some(given) = file.overlong.as_ref().filter(|_| is_soft && plan.outcome_weight == 0.0) {
            let message = "`soft` lowers rewards, which count nothing beside this teacher";
            let help = "write `overlong: mask`, or an `outcome_weight` above 0";
            self.problem(given.span, message, "has no effect", help);
        }
    }
}
