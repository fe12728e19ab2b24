//! The plan's groups in order of dispatch, and the wanted ones: the first ones of the plan, or those that a
//! curriculum chose.
//!
//! I1. The number of wanted groups only rises. I2. A group that an earlier process consumed is skipped. I3. A
//! group's position is that of its first slot among the first slots of all groups, as the scheduler counts them.

use std::collections::BTreeMap;

use clawrl_core::{GroupId, SlotId, SlotSpec};

use super::chooser::{Candidate, Chooser};
use super::ranges::GroupRanges;
use crate::{Curriculum, CurriculumConfig};

/// The group and the member of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Position of its group.
    pub(crate) position: u32,
    /// The place among the members of the group, in order of slot.
    pub(crate) member: u32,
}

#[derive(Debug)]
pub(crate) struct Roster {
    /// Places by slot id.
    places: Vec<Place>,
    /// Groups by position.
    groups: Vec<PlannedGroup>,
    /// Without a curriculum, the first group that is neither wanted nor skipped.
    next: u32,
    chooser: Option<Chooser>,
}

#[derive(Debug)]
struct PlannedGroup {
    id: GroupId,
    suite: u32,
    kind: u32,
    members: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    InFlight,
    /// All members are resolved, in this or an earlier process.
    Closed,
}

impl Roster {
    /// `kinds`: the kind of each task, by its place in the plan; 0 for tasks without an entry.
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
                groups.push(PlannedGroup { id: slot.group, suite: slot.suite, kind, members: 0, stage });
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
        let mut roster = Self { places, groups, next: 0, chooser: None };
        roster.pass_over();
        Ok(roster)
    }

    /// The same with a curriculum, which chooses the groups. `again`: groups that were wanted before and are not consumed.
    ///
    /// # Errors
    /// One of those that the plan does not have.
    pub(crate) fn chosen_by(
        self,
        config: CurriculumConfig,
        curriculum: Curriculum,
        again: &[GroupId],
    ) -> Result<Self, GroupId> {
        let positions: BTreeMap<GroupId, u32> = self.groups.iter().map(|group| group.id).zip(0..).collect();
        let position = |id: &GroupId| positions.get(id).copied().ok_or(*id);
        let mut again = again.iter().map(position).collect::<Result<Vec<u32>, GroupId>>()?;
        again.retain(|&position| self.groups[position as usize].stage == Stage::Open);
        let candidate = |group: &PlannedGroup| Candidate {
            suite: group.suite,
            kind: group.kind,
            is_consumed: group.stage == Stage::Closed,
        };
        let candidates: Vec<Candidate> = self.groups.iter().map(candidate).collect();
        Ok(Self { chooser: Some(Chooser::new(config, curriculum, &candidates, again)), ..self })
    }

    /// The number of groups that may be dispatched, from the start of the plan or of [`Self::order`].
    pub(crate) fn demand(&self) -> u32 {
        // There are no more groups than slots, whose ids are 32 bits wide.
        self.order().map_or(self.next, |order| order.len() as u32)
    }

    /// With a curriculum, the positions of the groups that may be dispatched.
    pub(crate) fn order(&self) -> Option<&[u32]> {
        self.chooser.as_ref().map(Chooser::order)
    }

    pub(crate) fn chooser(&self) -> Option<&Chooser> {
        self.chooser.as_ref()
    }

    pub(crate) fn chooser_mut(&mut self) -> Option<&mut Chooser> {
        self.chooser.as_mut()
    }

    /// With a curriculum, the wanted groups that are not among these, in the order in which they were chosen.
    pub(crate) fn wanted_beside(&self, consumed: &GroupRanges) -> Vec<GroupId> {
        let Some(chooser) = &self.chooser else { return Vec::new() };
        let wanted = chooser.order().iter().copied().chain(chooser.again());
        wanted.map(|position| self.id(position)).filter(|&id| !consumed.contains(id)).collect()
    }

    /// Whether the plan has a group that is not wanted yet.
    pub(crate) fn has_more(&self) -> bool {
        match &self.chooser {
            Some(chooser) => chooser.has_more(),
            None => (self.next as usize) < self.groups.len(),
        }
    }

    /// Wants one more group. Returns its position.
    pub(crate) fn want(&mut self) -> Option<u32> {
        let position = match &mut self.chooser {
            Some(chooser) => chooser.want()?,
            None => self.next,
        };
        self.groups.get_mut(position as usize)?.stage = Stage::InFlight;
        if self.chooser.is_none() {
            self.next += 1;
            self.pass_over();
        }
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

    /// The kind of its task.
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
