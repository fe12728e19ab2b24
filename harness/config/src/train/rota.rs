//! An endless order over the tasks of all families, in which every window is mixed.
//!
//! I1. The order is a function of families, weights and seed; a longer prefix starts with every shorter one.
//! I2. The order consists of rounds. The number of occurrences of a family in a round is its weight. In a mixture of suites it is the
//! suite's weight, and the families of the suite take turns. I3. Within a family every task occurs once before
//! any task recurs, in a new order each time.
//!
//! Pure; nothing to cancel.

use clawrl_core::{SplitMix64, derive_seed, stable_hash};

/// A family's tasks, as positions in the caller's list.
#[derive(Debug, Clone)]
pub(super) struct RotaFamily {
    /// Suite and family, from which the order is derived together with the seed.
    pub(super) name: String,
    pub(super) weight: u32,
    /// At least one.
    pub(super) tasks: Vec<usize>,
}

/// A turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Position of the task.
    pub(super) task: usize,
    /// Number of earlier occurrences of the task.
    pub(super) visit: u32,
}

/// The order. Without families it is empty.
#[derive(Debug)]
pub(super) struct Rota {
    seed: u64,
    families: Vec<Cursor>,
    round: u64,
    /// Rest of the current round, in reverse order.
    left: Vec<usize>,
}

#[derive(Debug)]
struct Cursor {
    family: RotaFamily,
    seed: u64,
    visit: u32,
    /// Rest of the current pass over the tasks, in reverse order.
    left: Vec<usize>,
}

impl Rota {
    pub(super) fn new(families: Vec<RotaFamily>, seed: u64) -> Self {
        let cursor = |family: RotaFamily| {
            let seed = derive_seed(seed, "family", &[stable_hash(family.name.as_bytes())]);
            Cursor { left: shuffled(&family.tasks, derive_seed(seed, "visit", &[0])), family, seed, visit: 0 }
        };
        let families: Vec<Cursor> =
            families.into_iter().filter(|family| !family.tasks.is_empty()).map(cursor).collect();
        Self { seed, families, round: 0, left: Vec::new() }
    }
}

/// A suite of a mixture.
#[derive(Debug, Clone)]
pub(super) struct RotaSuite {
    /// Name, from which the order is derived together with the seed.
    pub(super) name: String,
    /// Weight; `None` for the number of families with tasks.
    pub(super) weight: Option<u32>,
    pub(super) families: Vec<RotaFamily>,
}

/// The order over several suites. Without any weight, all families of all suites take turns.
#[derive(Debug)]
pub(super) enum Mixture {
    Alike(Rota),
    Shares {
        /// Positions of suites.
        suites: Rota,
        each: Vec<Rota>,
    },
}

impl Mixture {
    pub(super) fn new(suites: Vec<RotaSuite>, seed: u64) -> Self {
        if suites.iter().all(|suite| suite.weight.is_none()) {
            return Self::Alike(Rota::new(
                suites.into_iter().flat_map(|suite| suite.families).collect(),
                seed,
            ));
        }
        let filled =
            |suite: &RotaSuite| suite.families.iter().filter(|family| !family.tasks.is_empty()).count();
        let weights: Vec<u32> = suites
            .iter()
            .map(|suite| match filled(suite) {
                0 => 0,
                families => suite.weight.unwrap_or(families as u32),
            })
            .collect();
        // Short rounds are mixed better.
        let common = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
        let share = |(position, (suite, weight)): (usize, (&RotaSuite, &u32))| RotaFamily {
            name: suite.name.clone(),
            weight: weight / common,
            tasks: if *weight == 0 { Vec::new() } else { vec![position] },
        };
        let shares = suites.iter().zip(&weights).enumerate().map(share).collect();
        let each = suites.into_iter().map(|suite| {
            let seed = derive_seed(seed, "suite", &[stable_hash(suite.name.as_bytes())]);
            Rota::new(suite.families, seed)
        });
        Self::Shares { suites: Rota::new(shares, derive_seed(seed, "suites", &[])), each: each.collect() }
    }
}

impl Iterator for Mixture {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        match self {
            Self::Alike(rota) => rota.next(),
            Self::Shares { suites, each } => each.get_mut(suites.next()?.task)?.next(),
        }
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

impl Iterator for Rota {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.left.is_empty() {
            let weight = |at: usize| self.families[at].family.weight.max(1) as usize;
            let round: Vec<usize> =
                (0..self.families.len()).flat_map(|at| std::iter::repeat_n(at, weight(at))).collect();
            self.left = shuffled(&round, derive_seed(self.seed, "round", &[self.round]));
            self.round += 1;
        }
        let at = self.left.pop()?;
        Some(self.families[at].next())
    }
}

impl Cursor {
    fn next(&mut self) -> Turn {
        let task = match self.left.pop() {
            Some(task) => task,
            None => {
                self.visit += 1;
                let seed = derive_seed(self.seed, "visit", &[u64::from(self.visit)]);
                self.left = shuffled(&self.family.tasks, seed);
                // The rota contains only families with tasks.
                self.left.pop().unwrap_or_default()
            }
        };
        Turn { task, visit: self.visit }
    }
}

/// A new order (Fisher and Yates).
pub(super) fn shuffled(entries: &[usize], seed: u64) -> Vec<usize> {
    let mut shuffled = entries.to_vec();
    let mut stream = SplitMix64::new(seed);
    for last in (1..shuffled.len()).rev() {
        shuffled.swap(last, stream.below(last as u64 + 1) as usize);
    }
    shuffled
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Families of these sizes and weights; tasks are numbered through.
    fn families(shape: &[(usize, u32)]) -> Vec<RotaFamily> {
        let mut next = 0;
        let family = |(at, &(size, weight)): (usize, &(usize, u32))| {
            let tasks = (next..next + size).collect();
            next += size;
            RotaFamily { name: format!("family-{at}"), weight, tasks }
        };
        shape.iter().enumerate().map(family).collect()
    }

    #[test]
    fn without_tasks_there_is_no_turn() {
        assert_eq!(Rota::new(Vec::new(), 1).next(), None);
        assert_eq!(Rota::new(families(&[(0, 1), (0, 2)]), 1).next(), None);
    }

    /// Suites with these weights and numbers of families; each family has three tasks, numbered across all suites.
    fn suites(shape: &[(Option<u32>, usize)]) -> Vec<RotaSuite> {
        let all: usize = shape.iter().map(|&(_, families)| families).sum();
        let mut families = families(&vec![(3, 1); all]).into_iter();
        let suite = |(at, &(weight, count)): (usize, &(Option<u32>, usize))| RotaSuite {
            name: format!("suite-{at}"),
            weight,
            families: families.by_ref().take(count).collect(),
        };
        shape.iter().enumerate().map(suite).collect()
    }

    /// Number of occurrences of each suite in this number of turns.
    fn shares(shape: &[(Option<u32>, usize)], turns: usize) -> Vec<usize> {
        let all = suites(shape);
        let mut counts = vec![0; shape.len()];
        for turn in Mixture::new(all.clone(), 7).take(turns) {
            let has =
                |suite: &RotaSuite| suite.families.iter().any(|family| family.tasks.contains(&turn.task));
            counts[all.iter().position(has).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn suites_have_their_shares() {
        // Without weights, a suite has as many turns as it has families.
        assert_eq!(shares(&[(None, 4), (None, 1)], 50), [40, 10]);
        assert_eq!(shares(&[(Some(1), 4), (Some(1), 1)], 50), [25, 25]);
        assert_eq!(shares(&[(Some(300), 1), (Some(100), 6)], 40), [30, 10]);
        assert_eq!(shares(&[(Some(4), 2), (None, 1)], 50), [40, 10]);
        assert_eq!(shares(&[(Some(9), 0), (Some(1), 1)], 5), [0, 5]);
        // In every round of four, not only in the whole.
        let mixture = Mixture::new(suites(&[(Some(30), 1), (Some(10), 1)]), 1);
        let turns: Vec<Turn> = mixture.take(40).collect();
        assert!(turns.chunks(4).all(|round| round.iter().filter(|turn| turn.task >= 3).count() == 1));
    }

    #[test]
    fn a_mixture_follows_from_its_seed_and_longer_ones_begin_alike() {
        let turns = |seed, count| {
            Mixture::new(suites(&[(Some(2), 3), (Some(1), 2)]), seed).take(count).collect::<Vec<_>>()
        };
        assert_eq!(turns(1, 60)[..30], turns(1, 30));
        assert_ne!(turns(1, 30), turns(2, 30));
        // Families of a suite take turns, each task once before any comes again.
        let mut first: Vec<usize> =
            turns(1, 30).iter().map(|turn| turn.task).filter(|&task| task < 9).collect();
        assert_eq!(first.len(), 20);
        first.truncate(9);
        first.sort_unstable();
        assert_eq!(first, (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn other_seeds_give_other_orders() {
        let order = |seed| Rota::new(families(&[(9, 1), (9, 1)]), seed).take(18).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    proptest! {
        /// I1 to I3.
        #[test]
        fn rounds_are_mixed_and_tasks_take_turns(
            shape in proptest::collection::vec((1usize..7, 1u32..4), 1..6),
            seed: u64,
            rounds in 1usize..12,
        ) {
            let all = families(&shape);
            let round: usize = shape.iter().map(|&(_, weight)| weight as usize).sum();
            let turns: Vec<Turn> = Rota::new(all.clone(), seed).take(round * rounds).collect();
            let shorter: Vec<Turn> = Rota::new(all.clone(), seed).take(round).collect();
            prop_assert_eq!(&turns[..round], &shorter[..]);
            let family_of = |task: usize| all.iter().position(|family| family.tasks.contains(&task)).unwrap();
            for window in turns.chunks(round) {
                let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
                window.iter().for_each(|turn| *counts.entry(family_of(turn.task)).or_default() += 1);
                let expected: BTreeMap<usize, u32> = shape.iter().map(|&(_, weight)| weight).enumerate().collect();
                prop_assert_eq!(counts, expected);
            }
            for (at, family) in all.iter().enumerate() {
                let of_family = turns.iter().filter(|turn| family_of(turn.task) == at);
                for (number, turn) in of_family.clone().enumerate() {
                    prop_assert_eq!(turn.visit as usize, number / family.tasks.len());
                }
                let distinct: BTreeSet<(usize, u32)> = of_family.clone().map(|turn| (turn.task, turn.visit)).collect();
                prop_assert_eq!(distinct.len(), of_family.count());
            }
        }
    }
}
