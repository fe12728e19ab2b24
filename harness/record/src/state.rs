//! State of a journal, as a typed state machine.
//!
//! A journal is a sequence of lines; [`JournalState::open`] takes the first and [`JournalState::apply`] each
//! further one. The writer applies a line before it writes it, so a journal on disk replays to the state of its
//! writer.
//!
//! I1. A slot has at most one live attempt, and at most one attempt closes it.
//! I2. Attempts of a slot are numbered from 0 without gaps; their epochs rise. No lease is older than the
//!     session's first epoch.
//! I3. A finished attempt closes its slot, a cancelled one never does. A slot reopens if a fault closed it, or if
//!     a learner returns to a checkpoint; the attempt that had closed it then closes nothing.
//! I4. A refused line changes nothing.
//! I5. A run ends without live attempts. Only a harness fault may leave some: they are lost, their slots
//!     open.
//!
//! Errors: [`Violation`]. Pure; nothing to cancel.

use clawrl_core::{AttemptId, Epoch, LeaseRecord, SlotId};

use crate::{AttemptSummary, Ending, Entry, Finished, Line, Opened, ReopenCause, RunEnd, Violation};

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotStatus {
    /// To be filled.
    #[default]
    Open,
    /// An attempt is under way, or was when its process died.
    Leased(LeaseRecord),
    /// Filled, or given up because of a fault.
    Closed {
        /// Number of the attempt that closed it.
        by: u32,
    },
}

/// A slot and its attempts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotState {
    /// State of the slot.
    pub status: SlotStatus,
    /// Number of the next attempt; attempts that got a lease and never resolved count.
    pub next_number: u32,
    /// Attempts that resolved, in order.
    pub attempts: Vec<AttemptSummary>,
    /// Epoch of the latest lease.
    epoch: Option<Epoch>,
}

impl SlotState {
    /// The attempt that closed the slot.
    #[must_use]
    pub fn closing(&self) -> Option<&AttemptSummary> {
        match self.status {
            SlotStatus::Closed { by } => self.attempts.iter().rfind(|attempt| attempt.attempt.number == by),
            SlotStatus::Open | SlotStatus::Leased(_) => None,
        }
    }

    /// Attempts that got a lease and never resolved, because their process died.
    #[must_use]
    pub fn lost(&self) -> u32 {
        let live = u32::from(matches!(self.status, SlotStatus::Leased(_)));
        let resolved = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX);
        self.next_number.saturating_sub(resolved).saturating_sub(live)
    }
}

/// State of a run according to its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalState {
    opened: Opened,
    started_ms: u64,
    slots: Vec<SlotState>,
    /// The lowest epoch a lease may carry in this session.
    floor: Epoch,
    /// One more than the highest epoch granted.
    next_epoch: Epoch,
    finished: Option<Finished>,
    resumes: u32,
    /// Time of the sessions before this one.
    earlier_ms: u64,
    session_start_ms: u64,
    last_ms: u64,
}

impl JournalState {
    /// The state after the first line.
    ///
    /// # Errors
    /// [`Violation::NotOpened`] if it says anything but `opened`.
    pub fn open(line: &Line) -> Result<Self, Violation> {
        let Entry::Opened(opened) = &line.entry else { return Err(Violation::NotOpened) };
        Ok(Self {
            opened: opened.clone(),
            started_ms: line.t_ms,
            slots: vec![SlotState::default(); opened.slots as usize],
            floor: Epoch(0),
            next_epoch: Epoch(1),
            finished: None,
            resumes: 0,
            earlier_ms: 0,
            session_start_ms: line.t_ms,
            last_ms: line.t_ms,
        })
    }

    /// Applies a further line.
    ///
    /// # Errors
    /// [`Violation`]; the state is then unchanged (I4).
    pub fn apply(&mut self, line: &Line) -> Result<(), Violation> {
        if self.finished.is_some() && !matches!(line.entry, Entry::Resumed(_) | Entry::Synced) {
            return Err(Violation::AfterFinish);
        }
        match &line.entry {
            Entry::Opened(_) => return Err(Violation::OpenedTwice),
            Entry::Leased(lease) => self.lease(*lease)?,
            Entry::Resolved(summary) => self.resolve(summary)?,
            Entry::Synced => {}
            Entry::Resumed(resumed) => self.resume(resumed.first_epoch, line.t_ms)?,
            Entry::Reopened { slots, cause } => self.reopen(slots, *cause)?,
            Entry::Finished(finished) => self.finish(*finished)?,
        }
        self.last_ms = self.last_ms.max(line.t_ms);
        Ok(())
    }

    /// The first line.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Slots by [`SlotId`].
    #[must_use]
    pub fn slots(&self) -> &[SlotState] {
        &self.slots
    }

    /// All attempts that resolved, slot by slot.
    pub fn attempts(&self) -> impl Iterator<Item = &AttemptSummary> {
        self.slots.iter().flat_map(|slot| &slot.attempts)
    }

    /// An attempt that resolved.
    #[must_use]
    pub fn attempt(&self, attempt: AttemptId) -> Option<&AttemptSummary> {
        let slot = self.slots.get(attempt.slot.0 as usize)?;
        slot.attempts.iter().find(|summary| summary.attempt == attempt)
    }

    /// Slots that are not closed.
    #[must_use]
    pub fn open_slots(&self) -> Vec<SlotId> {
        let open = |slot: &SlotState| !matches!(slot.status, SlotStatus::Closed { .. });
        self.numbered().filter(|(_, slot)| open(slot)).map(|(id, _)| id).collect()
    }

    /// Slots that a fault closed.
    #[must_use]
    pub fn faulted_slots(&self) -> Vec<SlotId> {
        let faulted = |slot: &SlotState| slot.closing().is_some_and(AttemptSummary::faulted);
        self.numbered().filter(|(_, slot)| faulted(slot)).map(|(id, _)| id).collect()
    }

    /// Closed slots for which this holds.
    pub(crate) fn closed_slots(&self, mut wanted: impl FnMut(SlotId) -> bool) -> Vec<SlotId> {
        let closed = |slot: &SlotState| matches!(slot.status, SlotStatus::Closed { .. });
        self.numbered().filter(|(id, slot)| closed(slot) && wanted(*id)).map(|(id, _)| id).collect()
    }

    /// The end of the run, if it ended in good order and was not resumed since.
    #[must_use]
    pub fn finished(&self) -> Option<Finished> {
        self.finished
    }

    /// One more than the highest granted epoch.
    #[must_use]
    pub fn next_epoch(&self) -> Epoch {
        self.next_epoch
    }

    /// Number of resumes.
    #[must_use]
    pub fn resumes(&self) -> u32 {
        self.resumes
    }

    /// When the run began, milliseconds since 1970.
    #[must_use]
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// Time under way in milliseconds, pauses between sessions left out.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.earlier_ms + self.last_ms.saturating_sub(self.session_start_ms)
    }

    /// Closed and open slots.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        let closed =
            self.slots.iter().filter(|slot| matches!(slot.status, SlotStatus::Closed { .. })).count();
        let closed = u32::try_from(closed).unwrap_or(u32::MAX);
        (closed, self.opened.slots.saturating_sub(closed))
    }

    fn numbered(&self) -> impl Iterator<Item = (SlotId, &SlotState)> {
        (0..).map(SlotId).zip(&self.slots)
    }

    fn slot(&self, id: SlotId) -> Result<&SlotState, Violation> {
        let missing = Violation::NoSuchSlot { slot: id, slots: self.opened.slots };
        self.slots.get(id.0 as usize).ok_or(missing)
    }

    fn lease(&mut self, lease: LeaseRecord) -> Result<(), Violation> {
        let LeaseRecord { attempt, epoch } = lease;
        let slot = self.slot(attempt.slot)?;
        match slot.status {
            SlotStatus::Open => {}
            SlotStatus::Leased(live) => {
                return Err(Violation::AlreadyLeased { attempt, live: live.attempt });
            }
            SlotStatus::Closed { .. } => return Err(Violation::LeasedWhenClosed { attempt }),
        }
        let lowest = slot.epoch.map_or(self.floor, |last| self.floor.max(Epoch(last.0.saturating_add(1))));
        if epoch < lowest {
            return Err(Violation::OlderEpoch { attempt, epoch, current: lowest });
        }
        if attempt.number != slot.next_number {
            return Err(Violation::WrongNumber { attempt, expected: slot.next_number });
        }
        let slot = &mut self.slots[attempt.slot.0 as usize];
        slot.status = SlotStatus::Leased(lease);
        slot.next_number += 1;
        slot.epoch = Some(epoch);
        self.next_epoch = self.next_epoch.max(Epoch(epoch.0.saturating_add(1)));
        Ok(())
    }

    fn resolve(&mut self, summary: &AttemptSummary) -> Result<(), Violation> {
        let AttemptSummary { attempt, epoch, closes_slot, .. } = *summary;
        let slot = self.slot(attempt.slot)?;
        let lease = match slot.status {
            SlotStatus::Leased(lease) => lease,
            SlotStatus::Open => return Err(Violation::NotLeased { attempt }),
            SlotStatus::Closed { by } => {
                let by = AttemptId { slot: attempt.slot, number: by };
                return Err(Violation::ClosedTwice { attempt, by });
            }
        };
        if epoch < lease.epoch {
            return Err(Violation::OlderEpoch { attempt, epoch, current: lease.epoch });
        }
        if attempt != lease.attempt {
            return Err(Violation::NotLeased { attempt });
        }
        if epoch != lease.epoch {
            return Err(Violation::EpochNotLeased { attempt, epoch, leased: lease.epoch });
        }
        match summary.ending {
            Ending::Finished { .. } if !closes_slot => return Err(Violation::FinishedLeavesOpen { attempt }),
            Ending::Cancelled(_) if closes_slot => return Err(Violation::CancelledCloses { attempt }),
            _ => {}
        }
        let slot = &mut self.slots[attempt.slot.0 as usize];
        slot.status = if closes_slot { SlotStatus::Closed { by: attempt.number } } else { SlotStatus::Open };
        slot.attempts.push(summary.clone());
        Ok(())
    }

    fn resume(&mut self, first: Epoch, t_ms: u64) -> Result<(), Violation> {
        if first < self.next_epoch {
            return Err(Violation::ResumedInThePast { first, next: self.next_epoch });
        }
        self.give_up_live();
        self.floor = first;
        self.next_epoch = first;
        self.finished = None;
        self.resumes += 1;
        self.earlier_ms = self.wall_ms();
        self.session_start_ms = t_ms;
        self.last_ms = t_ms;
        Ok(())
    }

    /// Attempts under way will not resolve any more.
    fn give_up_live(&mut self) {
        for slot in &mut self.slots {
            if matches!(slot.status, SlotStatus::Leased(_)) {
                slot.status = SlotStatus::Open;
            }
        }
    }

    fn reopen(&mut self, slots: &[SlotId], cause: ReopenCause) -> Result<(), Violation> {
        for &id in slots {
            let closing = self.slot(id)?.closing();
            match cause {
                ReopenCause::Faulted if !closing.is_some_and(AttemptSummary::faulted) => {
                    return Err(Violation::ReopenedUnfaulted { slot: id });
                }
                ReopenCause::RolledBack if closing.is_none() => {
                    return Err(Violation::ReopenedOpen { slot: id });
                }
                ReopenCause::Faulted | ReopenCause::RolledBack => {}
            }
        }
        for id in slots {
            let slot = &mut self.slots[id.0 as usize];
            slot.attempts.iter_mut().for_each(|attempt| attempt.closes_slot = false);
            slot.status = SlotStatus::Open;
        }
        Ok(())
    }

    fn finish(&mut self, finished: Finished) -> Result<(), Violation> {
        let live = self.slots.iter().find_map(|slot| match slot.status {
            SlotStatus::Leased(lease) => Some(lease.attempt),
            SlotStatus::Open | SlotStatus::Closed { .. } => None,
        });
        if let Some(attempt) = live
            && finished.end != RunEnd::HarnessFault
        {
            return Err(Violation::FinishedWhileLive { attempt });
        }
        let (actual_closed, actual_open) = self.counts();
        let Finished { closed, open, .. } = finished;
        if (closed, open) != (actual_closed, actual_open) {
            return Err(Violation::WrongCounts { closed, open, actual_closed, actual_open });
        }
        self.give_up_live();
        self.finished = Some(finished);
        Ok(())
    }
}
