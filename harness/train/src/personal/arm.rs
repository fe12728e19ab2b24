//! The arms: ways to use the feedback of users.

use clawrl_config::{ChatObjective, ChatPlan, LoraPlan};
use serde::{Deserialize, Serialize};

pub(super) use clawrl_runtime::training::Arm;

/// Settings of an arm that learns. All others equal those of `clawrl serve`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Tuning {
    pub(super) learning_rate: f64,
    /// Rank of the adapter; alpha is twice that.
    pub(super) rank: u32,
    /// Number of samples of an update.
    pub(super) train_every_turns: u32,
    /// Number of candidate tokens that a teacher scores; 0: only the sampled token.
    pub(super) top_k: u32,
    /// Maximum divergence from the previous version, nats a token.
    pub(super) max_kl: f64,
}

fn objective(arm: Arm) -> Option<ChatObjective> {
    match arm {
        Arm::None | Arm::Memory => None,
        Arm::Binary => Some(ChatObjective::Binary),
        Arm::Opd => Some(ChatObjective::Opd),
        Arm::Combined => Some(ChatObjective::Combined),
    }
}

/// The settings with the fastest adaptation among those that cost at most one percentage point of correctness, tuned on seeds
/// that are not reported.
pub(super) fn tuning(arm: Arm) -> Tuning {
    let (learning_rate, max_kl) = match arm {
        Arm::Opd | Arm::Combined => (8e-3, 0.15),
        Arm::None | Arm::Binary | Arm::Memory => (6e-3, 0.2),
    };
    Tuning { learning_rate, rank: 8, train_every_turns: 4, top_k: 4, max_kl }
}

/// The chat plan of an arm; `None` if the arm does not learn.
pub(super) fn plan(arm: Arm, tuning: Tuning) -> Option<ChatPlan> {
    let Tuning { learning_rate, rank, train_every_turns, top_k, max_kl } = tuning;
    let default = ChatPlan::default();
    let lora = LoraPlan { rank, alpha: 2.0 * f64::from(rank), ..default.lora.clone() };
    let top_k = (top_k > 0).then_some(top_k);
    objective(arm).map(|objective| ChatPlan {
        objective,
        learning_rate,
        train_every_turns,
        lora,
        top_k,
        max_kl,
        ..default
    })
}
