//! Demand for groups, for a consumer that does not know in advance how many groups it needs.
//!
//! I1. A slot is dispatched only once its group's position is among [`Demand::groups`]. The position is that of the
//! group's first slot among the first slots of all groups of the plan, so it is the same in a resumed run. I2.
//! Demand never shrinks: asking for fewer groups than before changes nothing. I3. A dropped sender closes the demand,
//! because no more groups can be requested.
//!
//! Cancellation: waiting for a change can be dropped at any time; nothing is lost, because the latest value counts.

use std::future::pending;
use std::sync::Arc;

use clawrl_core::{GroupId, RunPlan};
use rustc_hash::FxHashMap;
use tokio::sync::watch;

/// Groups by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupDemand {
    /// So many from the start of the plan.
    First(u32),
    /// These positions, in the order of demand: later values extend earlier ones.
    These(Arc<[u32]>),
}

/// The groups in demand. See [`crate::SchedulerConfig::demand`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// Groups whose slots may be dispatched. The set only grows.
    pub groups: GroupDemand,
    /// No more groups are needed: live attempts finish, no others start.
    pub closed: bool,
}

impl GroupDemand {
    /// Number of groups.
    #[must_use]
    pub fn count(&self) -> u32 {
        match self {
            Self::First(groups) => *groups,
            // Groups cannot outnumber slots, whose ids are 32 bits wide.
            Self::These(positions) => positions.len() as u32,
        }
    }
}

impl Default for GroupDemand {
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

    /// Whether [`Self::changed`] can still become ready.
    pub(crate) fn is_open(&self) -> bool {
        self.receiver.is_some()
    }

    /// Whether a new value is available.
    pub(crate) fn has_news(&self) -> bool {
        // An error means that the sender is gone, which `take` reports as closed.
        self.receiver.as_ref().is_some_and(|receiver| receiver.has_changed().unwrap_or(true))
    }

    /// Ready when there is something to take.
    pub(crate) async fn changed(&mut self) {
        match &mut self.receiver {
            // An error means that the sender is gone, which `take` reports as closed.
            Some(receiver) => drop(receiver.changed().await),
            None => pending().await,
        }
    }

    /// The current demand; `None` once it is final and was returned.
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
        // Groups cannot outnumber slots, whose ids are 32 bits wide.
        let next = positions.len() as u32;
        *positions.entry(group).or_insert(next)
    };
    plan.slots.iter().map(|slot| slot.group).map(position).collect()
}
