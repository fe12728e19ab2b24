//! Learning an adapter in place of the whole model: as written, checked, and as a plan.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::check_rl::ABOVE_0;
use crate::bounds;
use crate::file::Located;

/// Low-rank factors that are learned in place of the model's matrices.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Lora")]
pub(crate) struct LoraFile {
    /// Rank of the factors. Default: 16.
    #[schemars(range(min = 1, max = bounds::MAX_LORA_RANK))]
    rank: Option<Located<i64>>,
    /// What their product is multiplied by, times the rank. Default: twice the rank.
    #[schemars(range(min = 0.0))]
    alpha: Option<Located<f64>>,
    /// Matrices of every layer that have factors. Default: all.
    #[schemars(length(min = 1))]
    targets: Option<Located<Vec<LoraTarget>>>,
}

/// An adapter that is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoraPlan {
    /// Rank of the factors.
    pub rank: u32,
    /// Factor of the product of both matrices, multiplied by the rank.
    pub alpha: f64,
    /// Matrices of every layer that have factors, each once.
    pub targets: Vec<LoraTarget>,
}

impl fmt::Display for LoraPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.targets.len() {
            all if all == LoraTarget::ALL.len() => "every matrix of a layer".to_owned(),
            1 => "one matrix of a layer".to_owned(),
            some => format!("{some} matrices of a layer"),
        };
        write!(f, "rank {}, alpha {}, of {of}", self.rank, self.alpha)
    }
}

/// A matrix of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum LoraTarget {
    /// Queries of attention.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// What leaves attention.
    OProj,
    /// The gate of the feed-forward unit.
    GateProj,
    /// Its other input.
    UpProj,
    /// What leaves it.
    DownProj,
}

impl LoraTarget {
    /// All of them, in the order of a layer.
    pub const ALL: [Self; 7] =
        [Self::QProj, Self::KProj, Self::VProj, Self::OProj, Self::GateProj, Self::UpProj, Self::DownProj];
}

/// Default rank.
const RANK: u32 = 16;

impl Default for LoraPlan {
    fn default() -> Self {
        Self { rank: RANK, alpha: 2.0 * f64::from(RANK), targets: LoraTarget::ALL.to_vec() }
    }
}

impl Checker {
    pub(super) fn lora(&mut self, file: &LoraFile) -> LoraPlan {
        let rank = self.findings.whole("rank", file.rank.as_ref(), 1..=bounds::MAX_LORA_RANK, RANK);
        let alpha = self.findings.real("alpha", file.alpha.as_ref(), &ABOVE_0, 2.0 * f64::from(rank));
        let mut targets = file.targets.as_ref().map_or(LoraTarget::ALL.to_vec(), |given| given.value.clone());
        targets.sort_unstable();
        targets.dedup();
        if let Some(given) = &file.targets {
            let help = "write each once, at least one, or leave `targets` out for all";
            if given.value.is_empty() {
                self.problem(given.span, "an adapter without targets learns nothing", "empty", help);
            } else if targets.len() < given.value.len() {
                self.problem(given.span, "a target is named twice", "not a set", help);
            }
        }
        LoraPlan { rank, alpha, targets }
    }
}
