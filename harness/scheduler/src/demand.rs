//! How much of a plan is wanted: for a consumer that does not know at the start how many groups it needs.
//!
//! I1. A slot is dispatched only once its group's position is among [`Demand::groups`]. The position is that of the
//! group's first slot among the first slots of all groups of the plan, so it is the same in a resumed run. I2. What
//! is wanted once stays wanted: fewer groups than before change nothing. I3. A dropped sender counts as closing: nobody is
//! left who could want more.
//!
//! Cancellation: waiting for a change can be dropped at any time; nothing is lost, since the latest value counts.

use std::future::pending;
use std::sync::Arc;

use clawrl_core::{GroupId, RunPlan};
use rustc_hash::FxHashMap;
use tokio::sync::watch;

/// Groups by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// So many from the start of the plan.
    First(u32),
    /// These, in the order in which they came to be wanted: what is said later begins with what was said before.
    These(Arc<[u32]>),
}

/// Which groups are wanted by now. See [`crate::SchedulerConfig::demand`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// Groups whose slots may be dispatched. They only become more.
    pub groups: Wanted,
    /// No more is wanted: what runs finishes, nothing else is started.
    pub closed: bool,
}

impl Wanted {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u32 {
        match self {
            Self::First(groups) => *groups,
            // There are no more groups than slots, whose ids are 32 bits wide.
            Self::These(positions) => positions.len() as u32,
        }
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Self::First(0)
    }
}

/// The receiving end of a run's demand, while it can still change.
#[derive(Debug)]
pub(crate) struct DemandInbox {
    /// `None` without demand, and once it is closed.
    receiver: Option<watch::Receiver<Demand>>,
}

impl DemandInbox {
    pub(crate) fn new(receiver: Option<watch::Receiver<Demand>>) -> Self {
        Self { receiver }
    }

    /// Whether [`Self::changed`] can ever be ready.
    pub(crate) fn is_open(&self) -> bool {
        self.receiver.is_some()
    }

    /// Whether there is something to take.
    pub(crate) fn has_news(&self) -> bool {
        // An error means that the sender is gone, which `take` tells as closed.
        self.receiver.as_ref().is_some_and(|receiver| receiver.has_changed().unwrap_or(true))
    }

    /// Ready when there is something to take.
    pub(crate) async fn changed(&mut self) {
        match &mut self.receiver {
            // An error means that the sender is gone, which `take` tells as closed.
            Some(receiver) => drop(receiver.changed().await),
            None => pending().await,
        }
    }

    /// What is wanted now; `None` when that cannot change any more and was told.
    pub(crate) fn take(&mut self) -> Option<Demand> {
        let receiver = self.receiver.as_mut()?;
        let mut demand = receiver.borrow_and_update().clone();
        demand.closed |= receiver.has_changed().is_err();
        if demand.closed {
            self.receiver = None;
        }
        Some(demand)
    }
}

/// The position of each slot's group, by slot id.
pub(crate) fn group_positions(plan: &RunPlan) -> Vec<u32> {
    let mut positions: FxHashMap<GroupId, u32> = FxHashMap::default();
    let position = |group: GroupId| {
        // There are no more groups than slots, whose ids are 32 bits wide.
        let next = positions.len() as u32;
        *positions.entry(group).or_insert(next)
    };
    plan.slots.iter().map(|slot| slot.group).map(position).collect()
}
