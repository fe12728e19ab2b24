//! What time is spent in.

use clawrl_core::{AttemptRecord, Turn};

/// A phase of an attempt, of the engine or of the learner, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// An attempt waits for a permit, from when its slot could have run.
    Queue,
    /// An attempt gets its environment.
    Lease,
    /// Reset: files, setup commands, first observation.
    Setup,
    /// A turn waits for its reply.
    Policy,
    /// A step of the engine with rows of prompts, whatever else is in it.
    Prefill,
    /// A step of the engine without.
    Decode,
    /// New weights take their place in the engine.
    Swap,
    /// A turn in the environment.
    Step,
    /// An attempt is graded.
    Grade,
    /// An environment is closed.
    Close,
    /// A step of the warm start.
    Imitate,
    /// The learner waits for a batch.
    Wait,
    /// An update of the parameters.
    Learn,
    /// Parameters are handed over to the engine.
    Publish,
    /// A checkpoint is written.
    Checkpoint,
}

impl Phase {
    /// All, in their order.
    pub const ALL: [Self; 15] = [
        Self::Queue,
        Self::Lease,
        Self::Setup,
        Self::Policy,
        Self::Prefill,
        Self::Decode,
        Self::Swap,
        Self::Step,
        Self::Grade,
        Self::Close,
        Self::Imitate,
        Self::Wait,
        Self::Learn,
        Self::Publish,
        Self::Checkpoint,
    ];

    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Lease => "lease",
            Self::Setup => "setup",
            Self::Policy => "policy",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Swap => "swap",
            Self::Step => "step",
            Self::Grade => "grade",
            Self::Close => "close",
            Self::Imitate => "imitate",
            Self::Wait => "wait",
            Self::Learn => "learn",
            Self::Publish => "publish",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// What one of its durations is of.
    pub fn per(self) -> &'static str {
        match self {
            Self::Queue | Self::Lease | Self::Setup | Self::Grade | Self::Close => "attempt",
            Self::Policy | Self::Step => "turn",
            Self::Prefill | Self::Decode => "engine step",
            Self::Swap => "swap",
            Self::Imitate => "imitation step",
            Self::Wait | Self::Learn => "update",
            Self::Publish => "publication",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// The durations of an attempt. A time of zero is of what it never came to.
pub(super) fn of_attempt(record: &AttemptRecord) -> impl Iterator<Item = (Phase, std::time::Duration)> + '_ {
    let times = &record.times;
    let whole = [
        (Phase::Lease, times.lease),
        (Phase::Setup, times.setup),
        (Phase::Grade, times.grade),
        (Phase::Close, times.close),
    ];
    let turn = |turn: &Turn| [(Phase::Policy, turn.policy_time), (Phase::Step, turn.step_time)];
    let turns = record.trajectory.turns.iter().flat_map(turn);
    whole.into_iter().chain(turns).filter(|(_, time)| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole_and_in_order() {
        assert!(Phase::ALL.is_sorted());
        let places = Phase::ALL.map(|phase| phase as usize);
        assert_eq!(places.to_vec(), (0..Phase::ALL.len()).collect::<Vec<_>>());
    }
}
