//! A world around a [`GroupStream`]: a plan, what becomes of each slot, and an engine and a learner that take their
//! turns in an order drawn from a seed.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use clawrl_core::{AttemptId, GroupId, SlotId, SlotSpec, SplitMix64, TaskIndex, derive_seed};
use clawrl_learn::{
    AdvantageKind, CurriculumConfig, FormedBatch, GroupStream, MemberResult, Replies, Schedule, Segment,
    StreamConfig, StreamEnd, StreamSnapshot,
};
use proptest::prelude::*;

/// The order in which slots are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Any that is in flight, drawn from this seed.
    Any(u64),
    /// Always the first that was dispatched. The learner's pace is drawn from this seed.
    InOrder(u64),
}

/// A plan and its outcomes.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) config: StreamConfig,
    pub(crate) groups: u32,
    pub(crate) members: u32,
    /// Tasks of which groups take turns, each of a family of its own. They belong to two suites, in turns, too.
    pub(crate) families: u32,
    /// Of 100 members, how many fault.
    pub(crate) fault_percent: u64,
    /// Of 100 groups, how many have equal rewards.
    pub(crate) constant_percent: u64,
    /// Of 100 versions, how many are rejected.
    pub(crate) rejected_percent: u64,
    pub(crate) seed: u64,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) batches: Vec<FormedBatch>,
    /// `None` if it was stopped before.
    pub(crate) end: Option<StreamEnd>,
    pub(crate) snapshot: StreamSnapshot,
    pub(crate) settled: Vec<GroupId>,
    pub(crate) waiting: usize,
    /// Groups in the order in which they were dispatched.
    pub(crate) dispatched: Vec<GroupId>,
}

/// Stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Never,
    /// As by kill -9, after so many events.
    Killed(usize),
    /// As by a person: what is in flight after so many events is cancelled.
    Cancelled(usize),
}

/// Worlds of any shape, with a fifth of the members faulting.
pub(crate) fn worlds(schedule: impl Strategy<Value = Schedule>) -> impl Strategy<Value = World> {
    let shape = (1u32..4, 1u32..4, 0u32..7, 0u32..40, 1u32..5);
    let rejected = prop_oneof![2 => Just(0u64), 1 => Just(50), 1 => Just(100)];
    let percents = (prop_oneof![Just(0u64), Just(30), Just(70), Just(100)], rejected);
    let chosen = (1u32..6, proptest::option::of((0.01..0.99f64, 1u32..99)));
    (schedule, shape, percents, chosen, any::<u64>()).prop_map(
        |(schedule, (batch_groups, resample_budget, updates, groups, members), percents, chosen, seed)| {
            World {
                config: StreamConfig {
                    advantage: AdvantageKind::Grpo,
                    process_weight: 0.0,
                    outcome_counts: true,
                    length: None,
                    schedule,
                    curriculum: chosen.1.map(|(least, memory)| CurriculumConfig { least, memory }),
                    batch_groups: NonZeroU32::new(batch_groups).unwrap(),
                    resample_budget: NonZeroU32::new(resample_budget).unwrap(),
                    updates,
                    seed,
                },
                groups,
                members,
                families: chosen.0,
                fault_percent: 20,
                constant_percent: percents.0,
                rejected_percent: percents.1,
                seed,
            }
        },
    )
}

impl World {
    pub(crate) fn slots(&self) -> Vec<SlotSpec> {
        let slot = |id: u32| SlotSpec {
            id: SlotId(id),
            task: TaskIndex(id / self.members % self.families),
            suite: self.suite(GroupId(id / self.members)),
            group: GroupId(id / self.members),
            member: id % self.members,
            env_seed: 0,
            policy_seed: 0,
        };
        (0..self.groups * self.members).map(slot).collect()
    }

    /// The family of each task.
    pub(crate) fn kinds(&self) -> Vec<u32> {
        (0..self.families).collect()
    }

    /// The suite of a group.
    pub(crate) fn suite(&self, group: GroupId) -> u32 {
        group.0 % self.families % 2
    }

    /// The reward of a slot; nothing if it faults.
    pub(crate) fn reward(&self, slot: SlotId) -> Option<f64> {
        let draw = |purpose, number: u32| derive_seed(self.seed, purpose, &[u64::from(number)]) % 100;
        let group = slot.0 / self.members;
        let of_group = draw("reward", group) % 2;
        let is_constant = draw("constant", group) < self.constant_percent;
        let reward = if is_constant { of_group } else { draw("own", slot.0) % 3 };
        (draw("fault", slot.0) >= self.fault_percent).then_some(reward as f64)
    }

    /// Rewards of the members of a group that do not fault, in order of slot.
    pub(crate) fn rewards(&self, group: GroupId) -> Vec<f64> {
        let slots = group.0 * self.members..(group.0 + 1) * self.members;
        slots.filter_map(|slot| self.reward(SlotId(slot))).collect()
    }

    /// Whether a version is rejected, in every run.
    pub(crate) fn is_rejected(&self, version: u64) -> bool {
        version > 0 && derive_seed(self.seed, "reject", &[version]) % 100 < self.rejected_percent
    }

    /// How old a token of one version is to a learner of another: versions between that acted.
    pub(crate) fn age(&self, learner: u64, version: u64) -> u64 {
        (version + 1..=learner).filter(|&later| !self.is_rejected(later)).count() as u64
    }

    /// Whether all tokens of a group are sampled when it is dispatched, and the time after that goes elsewhere.
    fn is_sampled_early(&self, slot: SlotId) -> bool {
        derive_seed(self.seed, "early", &[u64::from(slot.0 / self.members)]).is_multiple_of(2)
    }

    /// The result of a slot, with tokens of the versions that acted at its dispatch and at its end.
    fn result(&self, slot: SlotId, (first, last): (u64, u64)) -> MemberResult {
        let last = if self.is_sampled_early(slot) { first } else { last };
        let Some(reward) = self.reward(slot) else { return MemberResult::Faulted };
        let segment = |turn: u32| {
            let mut segment = Segment::default();
            segment.push_context(&[slot.0, turn]);
            for (token, version) in [first, last].into_iter().enumerate() {
                segment.push_sampled(turn, token as u32, -(version as f32), version, 1.0);
            }
            segment
        };
        let segments: Vec<Segment> = (0..=slot.0 % 2).map(segment).collect();
        let views = vec![Vec::new(); segments.len()];
        let process = (0..=slot.0 % 2).map(|turn| (slot.0 % 3 != turn).then_some(reward / 2.0)).collect();
        // Longer from version to version.
        let replies = Replies { count: 1, tokens: first + last + u64::from(slot.0 % 5) };
        MemberResult::Finished { reward, process, passed: reward >= 1.0, replies, segments, views }
    }

    pub(crate) fn run(&self, order: Order) -> Run {
        self.run_from(StreamSnapshot::at(0), order, Stop::Never)
    }

    /// Runs from a snapshot until the end, or until it is stopped.
    pub(crate) fn run_from(&self, snapshot: StreamSnapshot, order: Order, stop: Stop) -> Run {
        let mut engine = Engine::new(self, snapshot, order);
        let mut events = 0;
        while engine.stream.end().is_none() && stop != Stop::Killed(events) {
            if stop == Stop::Cancelled(events) {
                engine.cancel_all();
                break;
            }
            engine.advance();
            events += 1;
        }
        Run {
            end: engine.stream.end(),
            snapshot: engine.stream.snapshot().clone(),
            waiting: engine.stream.waiting(),
            batches: engine.batches,
            settled: engine.settled,
            dispatched: engine.all_dispatched,
        }
    }
}

struct Engine<'a> {
    world: &'a World,
    stream: GroupStream,
    order: Order,
    draws: SplitMix64,
    /// Slots that were dispatched, with the version that acted then.
    in_flight: BTreeMap<SlotId, u64>,
    dispatched: u32,
    all_dispatched: Vec<GroupId>,
    acting: u64,
    learner: u64,
    /// The version whose parameters the learner has.
    accepted: u64,
    is_training: bool,
    batches: Vec<FormedBatch>,
    settled: Vec<GroupId>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Resolve(SlotId),
    Take,
    Update,
    Publish,
}

impl<'a> Engine<'a> {
    fn new(world: &'a World, snapshot: StreamSnapshot, order: Order) -> Self {
        let (Order::Any(seed) | Order::InOrder(seed)) = order;
        let (version, accepted) = (snapshot.version, snapshot.accepted());
        let stream = GroupStream::new(world.config, &world.slots(), &world.kinds(), snapshot).unwrap();
        let mut engine = Self {
            world,
            stream,
            order,
            draws: SplitMix64::new(seed),
            in_flight: BTreeMap::new(),
            dispatched: 0,
            all_dispatched: Vec::new(),
            acting: accepted,
            learner: version,
            accepted,
            is_training: false,
            batches: Vec::new(),
            settled: Vec::new(),
        };
        engine.dispatch();
        engine
    }

    /// Something that can happen happens. Panics if nothing can: then the stream waits for what cannot come.
    fn advance(&mut self) {
        let mut possible = vec![];
        match self.order {
            Order::Any(_) => possible.extend(self.in_flight.keys().copied().map(Event::Resolve)),
            Order::InOrder(_) => possible.extend(self.first_in_flight().map(Event::Resolve)),
        }
        possible.extend(self.is_training.then_some(Event::Update));
        possible.extend((!self.is_training).then_some(Event::Take));
        if self.stream.publish_due() {
            match self.order {
                Order::Any(_) => possible.push(Event::Publish),
                // In the normal course, parameters act as soon as they may.
                Order::InOrder(_) => possible = vec![Event::Publish],
            }
        }
        let is_only_one = possible.len() == 1;
        match possible[self.draws.below(possible.len() as u64) as usize] {
            Event::Resolve(slot) => self.resolve(slot),
            Event::Take => {
                let can_go_on = self.take() || !is_only_one || self.has_moved();
                assert!(can_go_on, "a deadlock: {:?}", self.stream);
            }
            Event::Update => self.update(),
            Event::Publish => self.publish(),
        }
        self.dispatch();
    }

    /// Groups are dispatched in order, and members of a group in that of the plan.
    fn first_in_flight(&self) -> Option<SlotId> {
        self.all_dispatched.iter().find_map(|group| {
            let slots = group.0 * self.world.members..(group.0 + 1) * self.world.members;
            slots.map(SlotId).find(|slot| self.in_flight.contains_key(slot))
        })
    }

    /// Whether the stream can go on although no batch was due: what had waited too long made room, or it has ended.
    fn has_moved(&self) -> bool {
        self.stream.demand() > self.dispatched || self.stream.end().is_some()
    }

    fn resolve(&mut self, slot: SlotId) {
        let first = self.in_flight.remove(&slot).unwrap();
        let result = self.world.result(slot, (first, self.acting));
        self.stream.resolved(AttemptId { slot, number: 0 }, result).unwrap();
        let group = slot.0 / self.world.members;
        if !self.in_flight.keys().any(|other| other.0 / self.world.members == group) {
            self.settled.push(GroupId(group));
        }
    }

    /// Cancels the attempts in flight and all later ones, while the learner continues as long as it can.
    fn cancel_all(&mut self) {
        while self.stream.end().is_none() {
            for slot in std::mem::take(&mut self.in_flight).into_keys() {
                self.stream.resolved(AttemptId { slot, number: 0 }, MemberResult::Cancelled).unwrap();
            }
            if self.is_training {
                self.update();
            }
            if self.stream.publish_due() {
                self.publish();
            }
            self.take();
            self.dispatch();
        }
    }

    fn take(&mut self) -> bool {
        let formed = self.stream.next_batch();
        self.is_training = formed.is_some();
        self.batches.extend(formed);
        self.is_training
    }

    fn update(&mut self) {
        self.learner += 1;
        self.is_training = false;
        if self.world.is_rejected(self.learner) {
            self.stream.rejected(self.learner).unwrap();
        } else {
            self.stream.updated(self.learner).unwrap();
            self.accepted = self.learner;
        }
        assert_eq!(self.stream.snapshot().accepted(), self.accepted);
    }

    fn publish(&mut self) {
        assert!(self.acting < self.accepted, "what acts already is published");
        self.acting = self.accepted;
        self.stream.published(self.acting).unwrap();
    }

    fn dispatch(&mut self) {
        let demand = self.stream.demand();
        assert!(demand >= self.dispatched, "demand fell");
        let range = self.dispatched..demand;
        let wanted: Vec<u32> = match self.stream.order() {
            // Positions and ids of groups are the same here.
            Some(order) => order[range.start as usize..range.end as usize].to_vec(),
            None => range.collect(),
        };
        let consumed = |group: u32| self.stream.snapshot().consumed.contains(GroupId(group));
        let open: Vec<u32> = wanted.into_iter().filter(|&group| !consumed(group)).collect();
        for group in open {
            self.all_dispatched.push(GroupId(group));
            let slots = group * self.world.members..(group + 1) * self.world.members;
            self.in_flight.extend(slots.map(|slot| (SlotId(slot), self.acting)));
        }
        self.dispatched = demand;
    }
}
