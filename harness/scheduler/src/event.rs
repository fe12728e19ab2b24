//! What executors tell the dispatcher. Closed: nothing else reaches the dispatcher's state from an attempt.

use clawrl_core::{CancelReason, Epoch, Fault, SinkError, SlotId};
use tokio::sync::oneshot;

use crate::state::Resolution;

/// From one executor. Each sends at most two: its result, then whether the record was kept.
#[derive(Debug)]
pub(crate) enum Event {
    /// The attempt ended and its environment is closed. The executor keeps the record and waits for the
    /// answer, so trajectories never travel through the channel.
    Resolved {
        slot: SlotId,
        epoch: Epoch,
        resolution: Resolution,
        /// Of a faulted attempt.
        fault: Option<Fault>,
        leftovers: Vec<String>,
        answer: oneshot::Sender<Answer>,
    },
    /// An accepted record is kept.
    Recorded { slot: SlotId, epoch: Epoch },
    /// A lease or a record could not be kept.
    NotRecorded { slot: SlotId, epoch: Epoch, error: SinkError },
}

/// What the dispatcher says to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Record it. The reason is that of a cancelled attempt.
    Keep { closes_slot: bool, cancel_reason: CancelReason },
    /// It came too late; forget it.
    Discard,
}
