//! The dispatcher's state and its transitions, without a clock, a channel or a task.
//!
//! I1. Every attempt is accepted exactly once; any further result, and any result of another epoch than the
//! slot's current one, is discarded and counted. I2. A slot has at most one live attempt, closes at most
//! once, and is never dispatched after that. I3. Epochs of grants rise by one. I4. A slot is retried at most
//! `max_retries` times in a run, only for faults with a sound retry, each time under a new attempt number.
//! I5. A finished attempt always closes its slot; a cancelled one, and a harness fault, never do: the first
//! says nothing about the task, the second is our own error. A fault closes the slot unless a retry is due, here or (if
//! the run ends early) after a resume. I6. A permit is held until the attempt's record is written, so the permits
//! bound the records in flight. I7. When no attempt is live and no slot may be dispatched, the run is
//! done, or it waits for demand: slots are withheld and the demand is not closed.
//! No state waits for an event that cannot come. I8. A withheld slot is not dispatched, and once
//! released it is treated like any other: its retries need no further demand.
//!
//! Units: time is the [`Duration`] since the start of the run. Pure; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clawrl_core::{AttemptId, Boundary, CancelReason, Epoch, Retry, SlotId};

use crate::backoff;
use crate::demand::GroupDemand;
use crate::share::{Claim, FairShare};

/// Initial values of the state.
#[derive(Debug)]
pub(crate) struct StateConfig<'a> {
    /// By slot id.
    pub(crate) claims: Vec<Claim>,
    pub(crate) share: FairShare,
    pub(crate) open_slots: &'a [SlotId],
    /// Position of each slot's group, by slot id, when groups are released one by one; `None` for all at once.
    pub(crate) positions: Option<Vec<u32>>,
    /// The number of a slot's first attempt here; 0 for slots that are not listed.
    pub(crate) first_numbers: &'a BTreeMap<SlotId, u32>,
    pub(crate) first_epoch: Epoch,
    pub(crate) max_retries: u32,
    pub(crate) max_faults: Option<u32>,
    pub(crate) seed: u64,
}

/// A permit for one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) attempt: AttemptId,
    pub(crate) epoch: Epoch,
}

/// End of an attempt, as the state needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    Finished { passed: bool },
    Faulted { boundary: Boundary, retry: Retry },
    Cancelled,
}

/// Handling of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Keep the record.
    Accepted { closes_slot: bool },
    /// The result came too late, or twice.
    Discarded,
}

/// Reason for which the run dispatches nothing more and cancels live attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopCause {
    Interrupted,
    TooManyFaults,
    HarnessFault,
    SinkFailed,
}

impl StopCause {
    fn cancel_reason(self) -> CancelReason {
        match self {
            Self::Interrupted => CancelReason::Interrupted,
            Self::TooManyFaults | Self::HarnessFault | Self::SinkFailed => CancelReason::RunEnded,
        }
    }
}

/// Whether the run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Running,
    /// No more is wanted.
    DemandClosed,
    Draining,
    Stopping(StopCause),
}

/// Counts of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) attempts: u32,
    pub(crate) closed: u32,
    pub(crate) passed: u32,
    /// Slots closed by a fault.
    pub(crate) faulted: u32,
    pub(crate) retries: u32,
    pub(crate) cancelled: u32,
    pub(crate) discarded: u32,
}

/// All mutable state of a run.
#[derive(Debug)]
pub(crate) struct RunState {
    claims: Vec<Claim>,
    cells: Vec<Cell>,
    share: FairShare,
    /// By the position of their group.
    withheld: BTreeMap<u32, Vec<SlotId>>,
    withheld_slots: usize,
    /// Number of released groups, if groups are demanded one by one.
    released: usize,
    resting: BTreeSet<(Duration, SlotId)>,
    next_epoch: Epoch,
    max_retries: u32,
    max_faults: Option<u32>,
    seed: u64,
    mode: Mode,
    live: u32,
    tally: Tally,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Number of the next attempt.
    number: u32,
    retries: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not of this run, or closed in it.
    Closed,
    /// Not wanted yet.
    Withheld,
    Queued,
    Driving(Epoch),
    Recording(Epoch, Next),
    Resting,
    /// Open, and not to be dispatched again in this run.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Close(Closing),
    Retry,
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Finished { passed: bool },
    Faulted,
}

impl RunState {
    /// Queues the open slots, or withholds them until [`Self::release`].
    pub(crate) fn new(config: StateConfig<'_>) -> Self {
        let outside = Cell { number: 0, retries: 0, stage: Stage::Closed };
        let mut cells = vec![outside; config.claims.len()];
        let mut share = config.share;
        let mut withheld: BTreeMap<u32, Vec<SlotId>> = BTreeMap::new();
        for &slot in config.open_slots {
            let index = slot.0 as usize;
            let number = config.first_numbers.get(&slot).copied().unwrap_or(0);
            let stage = match &config.positions {
                None => {
                    share.push(slot, config.claims[index]);
                    Stage::Queued
                }
                Some(positions) => {
                    withheld.entry(positions[index]).or_default().push(slot);
                    Stage::Withheld
                }
            };
            cells[index] = Cell { number, retries: 0, stage };
        }
        Self {
            claims: config.claims,
            cells,
            share,
            withheld_slots: withheld.values().map(Vec::len).sum(),
            withheld,
            released: 0,
            resting: BTreeSet::new(),
            next_epoch: config.first_epoch,
            max_retries: config.max_retries,
            max_faults: config.max_faults,
            seed: config.seed,
            mode: Mode::Running,
            live: 0,
            tally: Tally::default(),
        }
    }

    /// The next attempt to start, if a permit and an open slot are there.
    pub(crate) fn grant(&mut self) -> Option<Grant> {
        if self.mode != Mode::Running {
            return None;
        }
        let slot = self.share.grant()?;
        let epoch = self.next_epoch;
        self.next_epoch = Epoch(epoch.0 + 1);
        let cell = &mut self.cells[slot.0 as usize];
        debug_assert_eq!(cell.stage, Stage::Queued);
        cell.stage = Stage::Driving(epoch);
        let attempt = AttemptId { slot, number: cell.number };
        cell.number += 1;
        self.live += 1;
        self.tally.attempts += 1;
        Some(Grant { attempt, epoch })
    }

    /// A result arrived. An accepted one must be followed by [`Self::recorded`] or [`Self::abandoned`].
    pub(crate) fn resolve(&mut self, slot: SlotId, epoch: Epoch, resolution: Resolution) -> Disposition {
        let cell = &mut self.cells[slot.0 as usize];
        if cell.stage != Stage::Driving(epoch) {
            self.tally.discarded += 1;
            return Disposition::Discarded;
        }
        let next = match resolution {
            Resolution::Finished { passed } => Next::Close(Closing::Finished { passed }),
            Resolution::Cancelled => Next::Leave,
            Resolution::Faulted { boundary: Boundary::Harness, .. } => Next::Leave,
            Resolution::Faulted { retry: Retry::Sound, .. } if cell.retries < self.max_retries => Next::Retry,
            Resolution::Faulted { .. } => Next::Close(Closing::Faulted),
        };
        cell.stage = Stage::Recording(epoch, next);
        if resolution == Resolution::Cancelled {
            self.tally.cancelled += 1;
        }
        if matches!(resolution, Resolution::Faulted { boundary: Boundary::Harness, .. }) {
            self.stop(StopCause::HarnessFault);
        }
        Disposition::Accepted { closes_slot: matches!(next, Next::Close(_)) }
    }

    /// The record of an accepted result is kept: its permit is free, and a retry may be due.
    pub(crate) fn recorded(&mut self, slot: SlotId, epoch: Epoch, now: Duration) {
        let Some(next) = self.leave(slot, epoch) else { return };
        self.cells[slot.0 as usize].stage = match next {
            Next::Close(closing) => {
                self.count_closed(closing);
                Stage::Closed
            }
            Next::Retry if self.mode == Mode::Running => self.rest(slot, now),
            Next::Retry | Next::Leave => Stage::Left,
        };
    }

    fn count_closed(&mut self, closing: Closing) {
        self.tally.closed += 1;
        match closing {
            Closing::Finished { passed } => self.tally.passed += u32::from(passed),
            Closing::Faulted => {
                self.tally.faulted += 1;
                if self.max_faults.is_some_and(|most| self.tally.faulted >= most.max(1)) {
                    self.stop(StopCause::TooManyFaults);
                }
            }
        }
    }

    fn rest(&mut self, slot: SlotId, now: Duration) -> Stage {
        let cell = &mut self.cells[slot.0 as usize];
        let due = now + backoff::rest(self.seed, slot, cell.retries);
        cell.retries += 1;
        self.tally.retries += 1;
        self.resting.insert((due, slot));
        Stage::Resting
    }

    /// The attempt left no record, and the run cannot continue because of it.
    pub(crate) fn abandoned(&mut self, slot: SlotId, epoch: Epoch, cause: StopCause) {
        self.stop(cause);
        if self.leave(slot, epoch).is_some() {
            self.cells[slot.0 as usize].stage = Stage::Left;
        }
    }

    /// Frees the permit of a live attempt; returns the decision about its slot, if the epoch is current.
    fn leave(&mut self, slot: SlotId, epoch: Epoch) -> Option<Next> {
        let next = match self.cells[slot.0 as usize].stage {
            Stage::Driving(current) if current == epoch => Next::Leave,
            Stage::Recording(current, next) if current == epoch => next,
            _ => return None,
        };
        self.live -= 1;
        self.share.release(self.claims[slot.0 as usize]);
        Some(next)
    }

    /// Queues the retries that are due.
    pub(crate) fn wake(&mut self, now: Duration) {
        while let Some(&(due, slot)) = self.resting.first() {
            if due > now || self.mode != Mode::Running {
                return;
            }
            self.resting.pop_first();
            self.cells[slot.0 as usize].stage = Stage::Queued;
            self.share.push(slot, self.claims[slot.0 as usize]);
        }
    }

    /// When [`Self::wake`] has something to do.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        let (due, _) = self.resting.first()?;
        (self.mode == Mode::Running).then_some(*due)
    }

    /// Queues the withheld slots of these groups.
    pub(crate) fn release(&mut self, wanted: &GroupDemand) {
        if self.mode != Mode::Running {
            return;
        }
        match wanted {
            GroupDemand::First(groups) => {
                while let Some(group) = self.withheld.first_entry()
                    && group.key() < groups
                {
                    let slots = group.remove();
                    self.queue(slots);
                }
            }
            GroupDemand::These(positions) => {
                for position in positions.iter().skip(self.released) {
                    let slots = self.withheld.remove(position).unwrap_or_default();
                    self.queue(slots);
                }
                self.released = self.released.max(positions.len());
            }
        }
    }

    /// Queues slots that were withheld.
    fn queue(&mut self, slots: Vec<SlotId>) {
        self.withheld_slots -= slots.len();
        for slot in slots {
            self.cells[slot.0 as usize].stage = Stage::Queued;
            self.share.push(slot, self.claims[slot.0 as usize]);
        }
    }

    /// Dispatches nothing more, because no more is wanted.
    pub(crate) fn sate(&mut self) {
        if self.mode == Mode::Running {
            self.mode = Mode::DemandClosed;
        }
    }

    /// Dispatches nothing more, on request. The first reason, this or closed demand, is kept.
    pub(crate) fn drain(&mut self) {
        if self.mode == Mode::Running {
            self.mode = Mode::Draining;
        }
    }

    /// Dispatches nothing more, and cancels live attempts. The first cause is kept.
    pub(crate) fn stop(&mut self, cause: StopCause) {
        if !matches!(self.mode, Mode::Stopping(_)) {
            self.mode = Mode::Stopping(cause);
        }
    }

    /// Why live attempts are to be cancelled, if they are.
    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        match self.mode {
            Mode::Stopping(cause) => Some(cause.cancel_reason()),
            Mode::Running | Mode::DemandClosed | Mode::Draining => None,
        }
    }

    /// Whether this attempt still waits for its first result.
    pub(crate) fn is_driving(&self, slot: SlotId, epoch: Epoch) -> bool {
        self.cells[slot.0 as usize].stage == Stage::Driving(epoch)
    }

    /// Whether no attempt is live and none will start.
    pub(crate) fn is_done(&self) -> bool {
        let waiting = self.share.open() > 0 || !self.resting.is_empty() || !self.withheld.is_empty();
        self.live == 0 && !(self.mode == Mode::Running && waiting)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Attempts that hold a permit.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Slots that wait for a permit or rest before a retry.
    pub(crate) fn waiting(&self) -> usize {
        self.share.open() + self.resting.len()
    }

    /// Slots that are not wanted yet.
    pub(crate) fn withheld(&self) -> usize {
        self.withheld_slots
    }

    /// Whether the slot is open. False for slots that are not part of this run.
    pub(crate) fn is_open(&self, slot: SlotId) -> bool {
        self.cells[slot.0 as usize].stage != Stage::Closed
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
