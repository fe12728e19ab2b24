//! Messages from executors to the dispatcher. The enum is closed: attempts affect the dispatcher in no other way.

use clawrl_core::{CancelReason, Epoch, Fault, SinkError, SlotId};
use tokio::sync::oneshot;

use crate::state::Resolution;

/// Message of an executor. Each sends at most two: its result, then whether the record was written.
#[derive(Debug)]
pub(crate) enum Event {
    /// The attempt ended and its environment is closed. The executor keeps the record and waits for the
    /// answer, so trajectories never travel through the channel.
    Resolved {
        slot: SlotId,
        epoch: Epoch,
        resolution: Resolution,
        /// The fault, if the attempt faulted.
        fault: Option<Fault>,
        leftovers: Vec<String>,
        answer: oneshot::Sender<Answer>,
    },
    /// An accepted record is kept.
    Recorded { slot: SlotId, epoch: Epoch },
    /// A lease or a record could not be kept.
    NotRecorded { slot: SlotId, epoch: Epoch, error: SinkError },
}

/// The dispatcher's answer to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Record it. The reason is that of a cancelled attempt.
    Keep { closes_slot: bool, cancel_reason: CancelReason },
    /// The result came too late; discard it.
    Discard,
}
