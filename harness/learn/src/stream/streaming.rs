//! Forms batches of the groups that finish first.
//!
//! I1. Informative groups are used in order of completion; those past a batch wait for the next. I2. A batch is due
//! with `batch` informative groups, or when its budget is used up, or when no more groups follow. It takes at most
//! its budget. I3. In the normal course, which is that groups finish in order of dispatch, every group is trained in
//! one of the first k batches from its dispatch, where k is the argument of [`Streaming::wants_more`].
//!
//! Why I3 holds: let d be the number of groups without a gradient, and count the groups in flight or waiting, plus the excess of d
//! over `budget - batch`. Settling a group never raises that number, and every batch lowers it by at least `batch`:
//! a batch of `batch` informative groups directly, one that used up its budget because its d exceeded `budget - batch` by
//! as many groups as it lacks informative ones. So a number of at most k times `batch` at dispatch is enough.

use std::collections::VecDeque;

use super::assembly::Settled;
use crate::Lineage;

#[derive(Debug, Default)]
pub(crate) struct Streaming {
    /// Groups that are wanted and not settled.
    in_flight: usize,
    /// Informative ones, in order of completion.
    waiting: VecDeque<Settled>,
    /// Groups without a gradient, in order of completion, until a batch uses them up.
    taught_nothing: VecDeque<Settled>,
}

/// The size of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize {
    /// Informative groups.
    pub(crate) batch: usize,
    /// Maximum number of groups; at least `batch`.
    pub(crate) budget: usize,
}

impl Streaming {
    /// Whether one more group can be dispatched so that it is trained within the given number of batches (I3).
    pub(crate) fn wants_more(&self, size: BatchSize, batches: u64) -> bool {
        let excess = self.taught_nothing.len().saturating_sub(size.budget - size.batch);
        let most = usize::try_from(batches).unwrap_or(usize::MAX).saturating_mul(size.batch);
        self.in_flight + self.waiting.len() + excess < most
    }

    pub(crate) fn push(&mut self) {
        self.in_flight += 1;
    }

    pub(crate) fn settle(&mut self, settled: Settled) {
        self.remove();
        if settled.is_informative() {
            self.waiting.push_back(settled);
        } else {
            self.taught_nothing.push_back(settled);
        }
    }

    /// Gives up a group.
    pub(crate) fn remove(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no group is in flight, waiting or set aside.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty() && self.taught_nothing.is_empty()
    }

    /// Discards groups that waited for too long.
    pub(crate) fn expire(&mut self, lineage: &Lineage, max_staleness: u64) {
        for mut settled in std::mem::take(&mut self.waiting) {
            settled.expire(lineage, max_staleness);
            if settled.is_informative() {
                self.waiting.push_back(settled);
            } else {
                self.taught_nothing.push_back(settled);
            }
        }
    }

    /// The groups of a batch, if one is due. `more`: whether the plan has groups that are not dispatched yet.
    pub(crate) fn take(&mut self, size: BatchSize, more: bool) -> Option<Vec<Settled>> {
        let used_up = self.waiting.len() + self.taught_nothing.len();
        let last = !more && self.in_flight == 0 && used_up > 0;
        if self.waiting.len() < size.batch && used_up < size.budget && !last {
            return None;
        }
        let informative = self.waiting.len().min(size.batch);
        let mut groups: Vec<Settled> = self.waiting.drain(..informative).collect();
        let taught_nothing = self.taught_nothing.len().min(size.budget - informative);
        groups.extend(self.taught_nothing.drain(..taught_nothing));
        Some(groups)
    }
}
