//! The plan's groups in order of dispatch, and how far they are wanted.
//!
//! I1. The number of wanted groups only rises. I2. A group that an earlier process consumed is passed over. I3. A
//! group's position is that of its first slot among the first slots of all groups, as the scheduler counts them.

use std::collections::BTreeMap;

use clawrl_core::{GroupId, SlotId, SlotSpec};

use super::ranges::GroupRanges;

/// Where a slot belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Position of its group.
    pub(crate) position: u32,
    /// Its place among the members of the group, in order of slot.
    pub(crate) member: u32,
}

#[derive(Debug)]
pub(crate) struct Roster {
    /// By slot id.
    places: Vec<Place>,
    /// By position.
    groups: Vec<PlannedGroup>,
    /// The first group that is neither wanted nor passed over.
    next: u32,
}

#[derive(Debug)]
struct PlannedGroup {
    id: GroupId,
    kind: u32,
    members: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    InFlight,
    /// All members resolved, here or in an earlier process.
    Closed,
}

impl Roster {
    /// `kinds`: of tasks, by their places in the plan; 0 of those that are not there.
    ///
    /// # Errors
    /// A consumed group that the plan does not have.
    pub(crate) fn new(slots: &[SlotSpec], kinds: &[u32], consumed: &GroupRanges) -> Result<Self, GroupId> {
        let mut positions: BTreeMap<GroupId, u32> = BTreeMap::new();
        let mut groups: Vec<PlannedGroup> = Vec::new();
        let mut places = Vec::with_capacity(slots.len());
        for slot in slots {
            let position = *positions.entry(slot.group).or_insert_with(|| {
                let stage = if consumed.contains(slot.group) { Stage::Closed } else { Stage::Open };
                let kind = kinds.get(slot.task.0 as usize).copied().unwrap_or_default();
                groups.push(PlannedGroup { id: slot.group, kind, members: 0, stage });
                // There are no more groups than slots, whose ids are 32 bits wide.
                (groups.len() - 1) as u32
            });
            let group = &mut groups[position as usize];
            places.push(Place { position, member: group.members });
            group.members += 1;
        }
        if let Some(unknown) = consumed.iter().find(|group| !positions.contains_key(group)) {
            return Err(unknown);
        }
        let mut roster = Self { places, groups, next: 0 };
        roster.pass_over();
        Ok(roster)
    }

    /// Groups from the start of the plan that may be dispatched.
    pub(crate) fn demand(&self) -> u32 {
        self.next
    }

    /// Whether a group is left that is not wanted yet.
    pub(crate) fn has_more(&self) -> bool {
        (self.next as usize) < self.groups.len()
    }

    /// Wants one more group; its position.
    pub(crate) fn want(&mut self) -> Option<u32> {
        let position = self.next;
        self.groups.get_mut(position as usize)?.stage = Stage::InFlight;
        self.next += 1;
        self.pass_over();
        Some(position)
    }

    pub(crate) fn place(&self, slot: SlotId) -> Option<Place> {
        self.places.get(slot.0 as usize).copied()
    }

    pub(crate) fn is_in_flight(&self, position: u32) -> bool {
        self.groups[position as usize].stage == Stage::InFlight
    }

    pub(crate) fn close(&mut self, position: u32) {
        self.groups[position as usize].stage = Stage::Closed;
    }

    pub(crate) fn id(&self, position: u32) -> GroupId {
        self.groups[position as usize].id
    }

    /// Of its task.
    pub(crate) fn kind(&self, position: u32) -> u32 {
        self.groups[position as usize].kind
    }

    pub(crate) fn members(&self, position: u32) -> u32 {
        self.groups[position as usize].members
    }

    fn pass_over(&mut self) {
        while self.groups.get(self.next as usize).is_some_and(|group| group.stage == Stage::Closed) {
            self.next += 1;
        }
    }
}
