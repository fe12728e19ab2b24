//! Choice of the families of the next groups: file form, checks, and plan form.
//!
//! I1. Without a curriculum the layout and order of a plan's groups do not depend on this module.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use crate::bounds;
use crate::file::Located;
use crate::numbers::Reals;

const LEAST: Reals = Reals { accepts: |least| least > 0.0 && least < 1.0, words: "above 0 and below 1" };

/// Groups come from families by how often these pass: those near a half more often, those that always pass or always fail seldom.
/// Suites keep their shares.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Curriculum")]
pub(crate) struct CurriculumFile {
    /// Share of the groups that a family has at least, as a part of an even one. Default: 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    least: Option<Located<f64>>,
    /// Attempts at tasks of a family that its success is about, later ones more than earlier ones. Default: 64.
    #[schemars(range(min = 1, max = bounds::MAX_MEMORY))]
    memory: Option<Located<i64>>,
}

/// Settings of the choice of families.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurriculumPlan {
    /// Share that every family has at least, as a part of an even one.
    pub least: f64,
    /// Attempts that a family's success is about.
    pub memory: u32,
}

impl CurriculumPlan {
    /// A plan has so many times the groups that it may try, so that a family may come up more often than in turns.
    pub(crate) const SPARE: u64 = 2;
}

impl fmt::Display for CurriculumPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "by the success of the last {} attempts of a family, each with {} of an even share at least",
            self.memory, self.least
        )
    }
}

impl Checker {
    pub(super) fn curriculum(&mut self, file: &CurriculumFile) -> CurriculumPlan {
        let findings = &mut self.findings;
        CurriculumPlan {
            least: findings.real("least", file.least.as_ref(), &LEAST, 0.1),
            memory: findings.whole("memory", file.memory.as_ref(), 1..=bounds::MAX_MEMORY, 64),
        }
    }
}
