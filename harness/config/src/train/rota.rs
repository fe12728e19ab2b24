//! Whose turn it is: an endless order over the tasks of all families, in which every window is mixed.
//!
//! I1. The order is a function of families, weights and seed; taking more of it never changes what came before.
//! I2. It goes in rounds. In each, every family comes up as often as its weight says. I3. Within a family every task
//! comes up once before any comes up again, in a new order each time.
//!
//! Pure; nothing to cancel.

use clawrl_core::{SplitMix64, derive_seed, stable_hash};

/// A family's tasks, as positions in the caller's list.
#[derive(Debug, Clone)]
pub(super) struct RotaFamily {
    /// Suite and family: what its order depends on besides the seed.
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
    /// How often it had its turn before.
    pub(super) visit: u32,
}

/// The order. Without families it is empty.
#[derive(Debug)]
pub(super) struct Rota {
    seed: u64,
    families: Vec<Cursor>,
    round: u64,
    /// Of the current round, what is left, last first.
    left: Vec<usize>,
}

#[derive(Debug)]
struct Cursor {
    family: RotaFamily,
    seed: u64,
    visit: u32,
    /// Of the current visit, what is left, last first.
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
                // A family has tasks, or it is no family of the rota.
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
