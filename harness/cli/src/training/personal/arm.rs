//! The arms: what becomes of what users say.

use clawrl_config::{ChatObjective, ChatPlan, LoraPlan};
use serde::{Deserialize, Serialize};

pub(super) use crate::command::eval::Arm;

/// How an arm that learns does so. Other settings are those of `clawrl serve`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Tuning {
    /// The optimizer's step size.
    pub(super) learning_rate: f64,
    /// Rank of the adapter; alpha is twice that.
    pub(super) rank: u32,
    /// Samples of an update.
    pub(super) train_every_turns: u32,
    /// Candidates that a teacher is asked about; 0 for the sampled token.
    pub(super) top_k: u32,
    /// Most divergence of a version from the one before, nats a token.
    pub(super) max_kl: f64,
}

impl Arm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Binary => "binary",
            Self::Opd => "opd",
            Self::Combined => "combined",
            Self::Memory => "memory",
        }
    }

    fn objective(self) -> Option<ChatObjective> {
        match self {
            Self::None | Self::Memory => None,
            Self::Binary => Some(ChatObjective::Binary),
            Self::Opd => Some(ChatObjective::Opd),
            Self::Combined => Some(ChatObjective::Combined),
        }
    }

    /// The settings that it adapted soonest with, among those that cost a point of correctness at most, on seeds that are not reported.
    pub(super) fn tuning(self) -> Tuning {
        let (learning_rate, max_kl) = match self {
            Self::Opd | Self::Combined => (8e-3, 0.15),
            Self::None | Self::Binary | Self::Memory => (6e-3, 0.2),
        };
        Tuning { learning_rate, rank: 8, train_every_turns: 4, top_k: 4, max_kl }
    }
}

/// How an arm learns; nothing where it does not.
pub(super) fn plan(arm: Arm, tuning: Tuning) -> Option<ChatPlan> {
    let Tuning { learning_rate, rank, train_every_turns, top_k, max_kl } = tuning;
    let default = ChatPlan::default();
    let lora = LoraPlan { rank, alpha: 2.0 * f64::from(rank), ..default.lora.clone() };
    let top_k = (top_k > 0).then_some(top_k);
    arm.objective().map(|objective| ChatPlan {
        objective,
        learning_rate,
        train_every_turns,
        lora,
        top_k,
        max_kl,
        ..default
    })
}
