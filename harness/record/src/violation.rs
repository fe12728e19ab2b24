//! Violations of the journal's rules, which `state.rs` defines.

use clawrl_core::{AttemptId, Epoch, SlotId};
use thiserror::Error;

/// A line that must not follow the lines before it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The first line says something else.
    #[error("the first line of a journal must be `opened`")]
    NotOpened,
    /// A further line opens the run.
    #[error("the run is opened twice")]
    OpenedTwice,
    /// Something happened after the end.
    #[error("the run is finished; only `resumed` may follow")]
    AfterFinish,
    /// The plan does not have this slot.
    #[error("there is no slot {slot}; the plan has {slots}")]
    NoSuchSlot {
        /// The slot.
        slot: SlotId,
        /// Number of slots.
        slots: u32,
    },
    /// Two live attempts of one slot.
    #[error("{attempt} got a lease while {live} is under way")]
    AlreadyLeased {
        /// The new attempt.
        attempt: AttemptId,
        /// The live one.
        live: AttemptId,
    },
    /// A lease for a slot that is closed.
    #[error("{attempt} got a lease, but its slot is closed")]
    LeasedWhenClosed {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Attempts are numbered without gaps.
    #[error("{attempt} got a lease; the next attempt of its slot is number {expected}")]
    WrongNumber {
        /// The attempt.
        attempt: AttemptId,
        /// The number it should have.
        expected: u32,
    },
    /// A lease or a result from the past.
    #[error("{attempt} carries epoch {}; its slot is at {}", epoch.0, current.0)]
    OlderEpoch {
        /// The attempt.
        attempt: AttemptId,
        /// Epoch of the line.
        epoch: Epoch,
        /// The lowest that would do for a lease; the live attempt's for a result.
        current: Epoch,
    },
    /// A result with an epoch that was never granted to its attempt.
    #[error("{attempt} carries epoch {}, but its lease has {}", epoch.0, leased.0)]
    EpochNotLeased {
        /// The attempt.
        attempt: AttemptId,
        /// Epoch of the line.
        epoch: Epoch,
        /// Granted epoch.
        leased: Epoch,
    },
    /// A result without a lease.
    #[error("{attempt} resolved without a lease")]
    NotLeased {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A second result for a closed slot.
    #[error("{attempt} resolved, but its slot was closed by {by}")]
    ClosedTwice {
        /// The attempt.
        attempt: AttemptId,
        /// The attempt that closed it.
        by: AttemptId,
    },
    /// An attempt that ran and was graded closes its slot.
    #[error("{attempt} finished and does not close its slot")]
    FinishedLeavesOpen {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt that we gave up never closes its slot.
    #[error("{attempt} was cancelled and closes its slot")]
    CancelledCloses {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A resuming process promised an epoch that was granted before.
    #[error("resumed at epoch {}, but {} was granted before", first.0, next.0.saturating_sub(1))]
    ResumedInThePast {
        /// Promised first epoch.
        first: Epoch,
        /// The lowest that would do.
        next: Epoch,
    },
    /// Only slots closed by a fault reopen.
    #[error("{slot} reopened, but no fault closed it")]
    ReopenedUnfaulted {
        /// The slot.
        slot: SlotId,
    },
    /// There is nothing to go back behind in an open slot.
    #[error("{slot} is rolled back, but it is open")]
    ReopenedOpen {
        /// The slot.
        slot: SlotId,
    },
    /// The end came while attempts were under way, and no harness fault was the reason.
    #[error("the run finished while {attempt} was under way")]
    FinishedWhileLive {
        /// One of the slots.
        attempt: AttemptId,
    },
    /// The counts of `finished` are not those of the journal.
    #[error(
        "`finished` counts {closed} closed and {open} open slots; the journal has {actual_closed} and {actual_open}"
    )]
    WrongCounts {
        /// Number in the line.
        closed: u32,
        /// Number in the line.
        open: u32,
        /// Number by replay.
        actual_closed: u32,
        /// Number by replay.
        actual_open: u32,
    },
}
