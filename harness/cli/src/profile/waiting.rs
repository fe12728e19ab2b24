//! How long attempts wait for a permit.
//!
//! A slot could run from the start of the run, from the end of its attempt before, or, where groups are released as a
//! learner wants them, from when its group was wanted: whatever came last. I1. A rest before a retry counts as waiting.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use clawrl_core::{GroupId, RunPlan, SlotId};
use clawrl_scheduler::GroupDemand;

/// What is known of a run's slots.
#[derive(Debug)]
pub(super) struct Waiting {
    began: Instant,
    /// By slot: the end of its last attempt.
    ended: HashMap<SlotId, Instant>,
    /// Where groups are released one by one.
    released: Option<Released>,
}

#[derive(Debug)]
struct Released {
    /// By slot: the place of its group among all.
    places: Vec<u32>,
    /// When so many groups were wanted, by their number.
    wanted: BTreeMap<u32, Instant>,
    /// When a group was, by its place, where they are wanted one by one.
    chosen: HashMap<u32, Instant>,
}

impl Waiting {
    /// Of a run that begins now.
    pub(super) fn new(plan: &RunPlan, on_demand: bool, now: Instant) -> Self {
        let released = on_demand.then(|| Released {
            places: places(plan),
            wanted: BTreeMap::new(),
            chosen: HashMap::new(),
        });
        Self { began: now, ended: HashMap::new(), released }
    }

    /// These groups are wanted by now.
    pub(super) fn wanted(&mut self, groups: &GroupDemand, now: Instant) {
        let Some(released) = &mut self.released else { return };
        match groups {
            GroupDemand::First(groups) => {
                released.wanted.entry(*groups).or_insert(now);
            }
            GroupDemand::These(places) => {
                let new = places.iter().skip(released.chosen.len());
                released.chosen.extend(new.map(|&place| (place, now)));
            }
        }
    }

    /// An attempt at a slot begins: how long it waited.
    pub(super) fn leased(&self, slot: SlotId, now: Instant) -> Duration {
        let release = self.released.as_ref().and_then(|released| released.of(slot));
        let last = [release, self.ended.get(&slot).copied()].into_iter().flatten().max();
        now.saturating_duration_since(last.unwrap_or(self.began))
    }

    /// An attempt at a slot ended.
    pub(super) fn ended(&mut self, slot: SlotId, now: Instant) {
        self.ended.insert(slot, now);
    }
}

impl Released {
    fn of(&self, slot: SlotId) -> Option<Instant> {
        let place = *self.places.get(slot.0 as usize)?;
        let chosen = self.chosen.get(&place).copied();
        chosen.or_else(|| self.wanted.range(place + 1..).next().map(|(_, &since)| since))
    }
}

/// By slot, the place of its group, in the order in which groups begin in the plan.
fn places(plan: &RunPlan) -> Vec<u32> {
    let mut known: HashMap<GroupId, u32> = HashMap::new();
    let of = |group: GroupId| {
        // There are no more groups than slots, whose ids are 32 bits wide.
        let next = known.len() as u32;
        *known.entry(group).or_insert(next)
    };
    plan.slots.iter().map(|slot| slot.group).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_begins_with_whatever_came_last() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let released = Released { places: vec![0, 0, 1, 2], wanted: BTreeMap::new(), chosen: HashMap::new() };
        let mut waiting = Waiting { began: start, ended: HashMap::new(), released: Some(released) };
        let check = |waiting: &Waiting, slot, now, expected| {
            assert_eq!(waiting.leased(SlotId(slot), at(now)), Duration::from_secs(expected), "slot {slot}");
        };
        waiting.wanted(&GroupDemand::First(1), at(0));
        check(&waiting, 0, 2, 2);
        waiting.wanted(&GroupDemand::First(2), at(5));
        waiting.wanted(&GroupDemand::First(2), at(6));
        check(&waiting, 1, 7, 7);
        check(&waiting, 2, 7, 2);
        // Wanted already, but not heard of yet.
        check(&waiting, 3, 7, 7);
        waiting.wanted(&GroupDemand::First(3), at(8));
        waiting.ended(SlotId(3), at(9));
        check(&waiting, 3, 10, 1);
    }

    #[test]
    fn groups_that_are_wanted_one_by_one_wait_from_then_on() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let released = Released { places: vec![0, 1, 2], wanted: BTreeMap::new(), chosen: HashMap::new() };
        let mut waiting = Waiting { began: start, ended: HashMap::new(), released: Some(released) };
        waiting.wanted(&GroupDemand::These([2].into()), at(3));
        waiting.wanted(&GroupDemand::These([2, 0].into()), at(5));
        let waits = [0, 2].map(|slot| waiting.leased(SlotId(slot), at(9)));
        assert_eq!(waits, [Duration::from_secs(4), Duration::from_secs(6)]);
    }
}
