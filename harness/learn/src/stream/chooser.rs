//! Groups of a plan in the order of a curriculum.
//!
//! I1. The k-th wanted group has the suite of the k-th group of the plan, so suites keep their shares. The curriculum chooses the
//! family, and the groups of a family come in the order of the plan. I2. Every group is wanted once. I3. After a stream resumes, the
//! groups that were wanted before and are not consumed are wanted first, in the same order, without a new choice. I4. A family
//! whose groups are used up is not on offer any more.
//!
//! Pure; nothing to cancel.

use std::collections::{BTreeMap, VecDeque};

use crate::{Curriculum, CurriculumConfig};

/// The properties of a group that a chooser uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) suite: u32,
    /// The family of its task.
    pub(crate) kind: u32,
    /// Whether an earlier process consumed it.
    pub(crate) is_consumed: bool,
}

#[derive(Debug)]
pub(crate) struct Chooser {
    config: CurriculumConfig,
    curriculum: Curriculum,
    /// The suite of each group of the plan.
    turns: Vec<u32>,
    /// Number of entries of `turns` that are used.
    taken: usize,
    /// Open groups by suite and family, in the order of the plan.
    open: BTreeMap<u32, BTreeMap<u32, VecDeque<u32>>>,
    /// The remaining groups of I3.
    again: VecDeque<u32>,
    /// Groups wanted since the stream was made.
    order: Vec<u32>,
}

impl Chooser {
    /// `again`: see I3.
    pub(crate) fn new(
        config: CurriculumConfig,
        curriculum: Curriculum,
        groups: &[Candidate],
        again: Vec<u32>,
    ) -> Self {
        let mut had_turns = vec![false; groups.len()];
        again.iter().for_each(|&position| had_turns[position as usize] = true);
        let mut open: BTreeMap<u32, BTreeMap<u32, VecDeque<u32>>> = BTreeMap::new();
        for ((position, group), had_turn) in (0..).zip(groups).zip(&mut had_turns) {
            *had_turn |= group.is_consumed;
            if !*had_turn {
                open.entry(group.suite).or_default().entry(group.kind).or_default().push_back(position);
            }
        }
        Self {
            config,
            curriculum,
            turns: groups.iter().map(|group| group.suite).collect(),
            taken: had_turns.into_iter().filter(|had_turn| *had_turn).count(),
            open,
            again: again.into(),
            order: Vec::new(),
        }
    }

    /// Whether a group is left.
    pub(crate) fn has_more(&self) -> bool {
        !self.again.is_empty() || self.taken < self.turns.len()
    }

    /// Wants one more group. Returns its position.
    pub(crate) fn want(&mut self) -> Option<u32> {
        let position = match self.again.pop_front() {
            Some(position) => position,
            None => self.choose()?,
        };
        self.order.push(position);
        Some(position)
    }

    fn choose(&mut self) -> Option<u32> {
        while let Some(suite) = self.turns.get(self.taken) {
            self.taken += 1;
            let Some(families) = self.open.get_mut(suite) else { continue };
            let mut offered: Vec<(u32, u32)> =
                families.iter().filter_map(|(&kind, open)| Some((*open.front()?, kind))).collect();
            // Among families that are equally due, the first one in the plan.
            offered.sort_unstable();
            let kinds: Vec<u32> = offered.into_iter().map(|(_, kind)| kind).collect();
            let chosen = self.curriculum.choose(self.config, &kinds);
            if let Some(position) = chosen.and_then(|kind| families.get_mut(&kind)?.pop_front()) {
                return Some(position);
            }
        }
        None
    }

    /// Groups wanted since the stream was made, in this order.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Groups wanted before the stream was made, and not yet since.
    pub(crate) fn again(&self) -> impl Iterator<Item = u32> + '_ {
        self.again.iter().copied()
    }

    pub(crate) fn curriculum(&self) -> &Curriculum {
        &self.curriculum
    }

    pub(crate) fn learn(&mut self, kind: u32, passed: u32, attempts: u32) {
        self.curriculum.learn(self.config, kind, passed, attempts);
    }

    /// The smallest and the largest share of a family in its suite, in multiples of an even share; `None` without a choice.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let mut spread: Option<(f64, f64)> = None;
        for families in self.open.values() {
            let offered = families.iter().filter(|(_, open)| !open.is_empty());
            let kinds: Vec<u32> = offered.map(|(&kind, _)| kind).collect();
            for share in self.curriculum.shares(self.config, &kinds) {
                let share = share * kinds.len() as f64;
                spread =
                    Some(spread.map_or((share, share), |(least, most)| (least.min(share), most.max(share))));
            }
        }
        spread
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: CurriculumConfig = CurriculumConfig { least: 0.1, memory: 64 };

    fn plan(groups: &[(u32, u32)], consumed: &[u32]) -> Vec<Candidate> {
        let candidate = |(position, &(suite, kind)): (u32, &(u32, u32))| Candidate {
            suite,
            kind,
            is_consumed: consumed.contains(&position),
        };
        (0..).zip(groups).map(candidate).collect()
    }

    fn all(chooser: &mut Chooser) -> Vec<u32> {
        std::iter::from_fn(|| chooser.want()).collect()
    }

    #[test]
    fn with_nothing_known_the_order_is_that_of_a_plan_in_turns() {
        let turns = [(0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 1)];
        let mut chooser = Chooser::new(CONFIG, Curriculum::default(), &plan(&turns, &[]), Vec::new());
        assert_eq!(chooser.spread(), Some((1.0, 1.0)));
        assert_eq!(all(&mut chooser)[..2], [0, 1]);
        assert_eq!((chooser.order().len(), chooser.has_more()), (6, false));
    }

    #[test]
    fn i3_what_had_its_turn_comes_first_and_takes_none() {
        let turns = [(0, 0), (1, 2), (0, 1), (1, 3), (0, 0), (1, 2)];
        let mut chooser = Chooser::new(CONFIG, Curriculum::default(), &plan(&turns, &[0]), vec![3, 2]);
        assert_eq!(chooser.again().collect::<Vec<_>>(), [3, 2]);
        assert_eq!(all(&mut chooser), [3, 2, 1, 4, 5]);
        assert_eq!(chooser.again().count(), 0);
    }

    proptest! {
        #[test]
        fn i1_i2_i4_every_group_comes_once_and_suites_keep_their_shares(
            plan_of in prop::collection::vec((0u32..3, 0u32..4), 0..60),
            results in prop::collection::vec(0u32..=8, 1..9),
        ) {
            // The numbers of families continue across suites.
            let groups: Vec<(u32, u32)> = plan_of.iter().map(|&(suite, family)| (suite, 4 * suite + family)).collect();
            let mut chooser = Chooser::new(CONFIG, Curriculum::default(), &plan(&groups, &[]), Vec::new());
            let mut results = results.iter().cycle();
            let mut wanted: Vec<u32> = Vec::new();
            while chooser.has_more() {
                let position = chooser.want().unwrap();
                chooser.learn(groups[position as usize].1, *results.next().unwrap(), 8);
                wanted.push(position);
            }
            prop_assert_eq!(chooser.want(), None);
            let suites = |positions: &[u32]| -> Vec<u32> {
                positions.iter().map(|&position| groups[position as usize].0).collect()
            };
            let planned: Vec<u32> = (0..groups.len() as u32).collect();
            prop_assert_eq!(suites(&wanted), suites(&planned));
            for kind in 0..12 {
                let of_kind: Vec<u32> =
                    wanted.iter().copied().filter(|&position| groups[position as usize].1 == kind).collect();
                prop_assert!(of_kind.is_sorted_by(|one, next| one < next));
            }
            wanted.sort_unstable();
            prop_assert_eq!(wanted, planned);
        }
    }
}
