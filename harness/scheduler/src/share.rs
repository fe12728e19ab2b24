//! Assigns permits to slots: weighted fair sharing over suites.
//!
//! I1. While two suites have open slots and every permit is held, each holds its weighted share of the
//! permits to within one. I2. No suite with an open slot starves: among suites below their share, the suite
//! with the least service for its weight goes first (stride scheduling). I3. Work-conserving: a free permit is
//! granted whenever any slot can use it. I4. Within a suite the first open slot in plan order goes
//! first, so members of a group are dispatched together, and a retry overtakes later slots.
//! I5. No kind of provider ever holds more than its permits.
//!
//! Stride scheduling alone would share *dispatches*: a suite of long episodes would then hold nearly all
//! permits. Therefore the share of held permits is considered first; the stride decides among suites below their share.
//!
//! Pure; nothing to cancel.
//! Source: Waldspurger and Weihl 1995, "Stride scheduling". Deviation: the cap on held permits above.

use std::collections::BTreeSet;

use clawrl_core::SlotId;

/// Stride of a suite of weight 1 per grant. Large, so that rounding `STRIDE / weight` stays far below
/// one grant over any run; small enough that `u64` lasts for 2^31 grants.
const STRIDE: u64 = 1 << 32;

/// Position of a provider kind in the scheduler's list of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindIndex(pub(crate) usize);

/// Position of a suite in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SuiteIndex(pub(crate) usize);

/// The suite and the kind of provider that a slot's permit counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) suite: SuiteIndex,
    pub(crate) kind: KindIndex,
}

/// Open slots in suites, and the permits they compete for.
#[derive(Debug)]
pub(crate) struct FairShare {
    suites: Vec<Suite>,
    kinds: Vec<Permits>,
    run: Permits,
    /// Pass of the last grant; a suite that was idle starts here instead of with saved-up credit.
    now: u64,
    open: usize,
}

#[derive(Debug)]
struct Suite {
    weight: u64,
    /// By kind.
    open: Vec<BTreeSet<SlotId>>,
    held: u64,
    pass: u64,
}

#[derive(Debug, Clone, Copy)]
struct Permits {
    held: u64,
    most: u64,
}

impl Permits {
    fn free(self) -> bool {
        self.held < self.most
    }
}

impl FairShare {
    /// `weights` by suite (0 counts as 1), `kind_permits` by kind (`None`: as many as the run has), and the
    /// permits of the run.
    pub(crate) fn new(weights: &[u32], kind_permits: &[Option<u32>], run_permits: u32) -> Self {
        let suite = |&weight: &u32| Suite {
            weight: u64::from(weight.max(1)),
            open: vec![BTreeSet::new(); kind_permits.len()],
            held: 0,
            pass: 0,
        };
        let permits = |most: u32| Permits { held: 0, most: u64::from(most) };
        Self {
            suites: weights.iter().map(suite).collect(),
            kinds: kind_permits.iter().map(|most| permits(most.unwrap_or(run_permits))).collect(),
            run: permits(run_permits),
            now: 0,
            open: 0,
        }
    }

    /// Opens a slot for dispatch.
    pub(crate) fn push(&mut self, slot: SlotId, claim: Claim) {
        let suite = &mut self.suites[claim.suite.0];
        if suite.open.iter().all(BTreeSet::is_empty) {
            suite.pass = suite.pass.max(self.now);
        }
        if suite.open[claim.kind.0].insert(slot) {
            self.open += 1;
        }
    }

    /// Takes the permits for the next slot; `None` if no permit or no suitable slot is free.
    pub(crate) fn grant(&mut self) -> Option<SlotId> {
        if !self.run.free() {
            return None;
        }
        let able: Vec<(usize, SlotId, KindIndex)> = self
            .suites
            .iter()
            .enumerate()
            .filter_map(|(index, suite)| suite.first(&self.kinds).map(|(slot, kind)| (index, slot, kind)))
            .collect();
        let all_weights: u64 = able.iter().map(|&(index, ..)| self.suites[index].weight).sum();
        let below_share =
            |index: usize| self.suites[index].held * all_weights < self.run.most * self.suites[index].weight;
        let by_pass = |&&(index, ..): &&(usize, SlotId, KindIndex)| (self.suites[index].pass, index);
        let &(index, slot, kind) = able
            .iter()
            .filter(|&&(index, ..)| below_share(index))
            .min_by_key(by_pass)
            .or_else(|| able.iter().min_by_key(by_pass))?;
        let suite = &mut self.suites[index];
        suite.open[kind.0].remove(&slot);
        suite.held += 1;
        self.now = suite.pass;
        suite.pass += STRIDE / suite.weight;
        self.kinds[kind.0].held += 1;
        self.run.held += 1;
        self.open -= 1;
        Some(slot)
    }

    /// Returns the permits that [`Self::grant`] took.
    pub(crate) fn release(&mut self, claim: Claim) {
        let held =
            [&mut self.suites[claim.suite.0].held, &mut self.kinds[claim.kind.0].held, &mut self.run.held];
        for count in held {
            debug_assert!(*count > 0, "a permit is given back once");
            *count = count.saturating_sub(1);
        }
    }

    /// Slots that wait for a permit.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

impl Suite {
    /// The first slot in plan order whose kind has a free permit.
    fn first(&self, kinds: &[Permits]) -> Option<(SlotId, KindIndex)> {
        let fitting = self.open.iter().enumerate().filter(|&(kind, _)| kinds[kind].free());
        fitting
            .filter_map(|(kind, slots)| slots.first().map(|&slot| (slot, KindIndex(kind))))
            .min_by_key(|x| x.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: KindIndex = KindIndex(0);

    fn claim(suite: usize) -> Claim {
        Claim { suite: SuiteIndex(suite), kind: KIND }
    }

    /// Slot ids contain their suite, so that a grant can be attributed.
    fn slot(suite: usize, number: u32) -> SlotId {
        SlotId(number * 16 + suite as u32)
    }

    fn filled(weights: &[u32], permits: u32, slots_each: u32) -> FairShare {
        let mut share = FairShare::new(weights, &[None], permits);
        for suite in 0..weights.len() {
            for number in 0..slots_each {
                share.push(slot(suite, number), claim(suite));
            }
        }
        share
    }

    fn suite_of(slot: SlotId) -> usize {
        (slot.0 % 16) as usize
    }

    fn check(weights: &[u32], permits: u32, expected: &[u64]) {
        let mut share = filled(weights, permits, permits + 1);
        while share.grant().is_some() {}
        let held: Vec<u64> = share.suites.iter().map(|suite| suite.held).collect();
        assert_eq!(held, expected, "weights {weights:?}, {permits} permits");
    }

    #[test]
    fn shares_follow_weights() {
        check(&[1], 5, &[5]);
        check(&[2, 1], 9, &[6, 3]);
        check(&[1, 1], 5, &[3, 2]);
        check(&[5, 3, 2], 10, &[5, 3, 2]);
        check(&[0, 1], 4, &[2, 2]);
    }

    #[test]
    fn one_permit_is_passed_round_by_weight() {
        let mut share = filled(&[2, 1], 1, 30);
        let mut served = [0; 2];
        for _ in 0..30 {
            let suite = suite_of(share.grant().unwrap());
            served[suite] += 1;
            share.release(claim(suite));
        }
        assert_eq!(served, [20, 10]);
    }

    #[test]
    fn a_suite_that_comes_late_has_no_credit() {
        let mut share = filled(&[1], 1, 50);
        share.suites.push(Suite { weight: 1, open: vec![BTreeSet::new()], held: 0, pass: 0 });
        let serve = |share: &mut FairShare| {
            let suite = suite_of(share.grant().unwrap());
            share.release(claim(suite));
            suite
        };
        assert_eq!((0..20).map(|_| serve(&mut share)).sum::<usize>(), 0);
        (0..20).for_each(|number| share.push(slot(1, number), claim(1)));
        assert_eq!((0..20).map(|_| serve(&mut share)).sum::<usize>(), 10, "half of what follows");
    }

    #[test]
    fn plan_order_within_a_suite_and_a_retry_goes_first() {
        let mut share = filled(&[1], 10, 3);
        assert_eq!(share.grant(), Some(slot(0, 0)));
        assert_eq!(share.grant(), Some(slot(0, 1)));
        share.push(slot(0, 0), claim(0));
        assert_eq!(share.grant(), Some(slot(0, 0)));
        assert_eq!(share.grant(), Some(slot(0, 2)));
    }

    #[test]
    fn a_kind_without_permits_does_not_block_the_others() {
        let mut share = FairShare::new(&[1], &[Some(1), None], 10);
        let claims = [0, 0, 1].map(|kind| Claim { suite: SuiteIndex(0), kind: KindIndex(kind) });
        for (number, claim) in claims.iter().enumerate() {
            share.push(SlotId(number as u32), *claim);
        }
        assert_eq!(share.grant(), Some(SlotId(0)));
        assert_eq!(share.grant(), Some(SlotId(2)), "slot 1 needs the kind that is used up");
        assert_eq!(share.grant(), None);
        share.release(claims[0]);
        assert_eq!(share.grant(), Some(SlotId(1)));
    }

    proptest! {
        /// I1, under releases in any order, with slots always open.
        #[test]
        fn two_suites_hold_their_share_within_one(
            weights in (1u32..9, 1u32..9),
            permits in 1u32..40,
            releases in proptest::collection::vec(any::<prop::sample::Index>(), 0..120),
        ) {
            let mut share = filled(&[weights.0, weights.1], permits, 400);
            let mut held = Vec::new();
            for release in releases {
                while let Some(slot) = share.grant() {
                    held.push(slot);
                }
                let quota = f64::from(permits) * f64::from(weights.0) / f64::from(weights.0 + weights.1);
                prop_assert_eq!(held.len(), permits as usize);
                prop_assert!((share.suites[0].held as f64 - quota).abs() <= 1.0);
                let gone = held.swap_remove(release.index(held.len()));
                share.release(claim(suite_of(gone)));
            }
        }

        /// I2: between two grants to a suite, the others get no more than their weights allow.
        #[test]
        fn no_suite_starves(
            weights in proptest::collection::vec(1u32..9, 2..6),
            permits in 1u32..12,
            releases in proptest::collection::vec(any::<prop::sample::Index>(), 300),
        ) {
            let mut share = filled(&weights, permits, 400);
            let all: u32 = weights.iter().sum();
            let mut waited = vec![0u32; weights.len()];
            let mut held = Vec::new();
            for release in releases {
                while let Some(slot) = share.grant() {
                    held.push(slot);
                    waited.iter_mut().for_each(|grants| *grants += 1);
                    waited[suite_of(slot)] = 0;
                }
                for (suite, &weight) in weights.iter().enumerate() {
                    let holds = share.suites[suite].held > 0;
                    // Tried, not derived: with one round less, 25 grants against 24 were seen for weights 8, 2, 2.
                    let bound = (all.div_ceil(weight) + 2) * weights.len() as u32 + permits;
                    prop_assert!(holds || waited[suite] <= bound, "suite {} waited {}", suite, waited[suite]);
                }
                let gone = held.swap_remove(release.index(held.len()));
                share.release(claim(suite_of(gone)));
            }
        }

        /// I3 and I5: everything is granted once, and never above any limit.
        #[test]
        fn all_slots_are_granted_once_within_limits(
            slots in proptest::collection::vec((0usize..3, 0usize..2), 0..80),
            kind_permits in (1u32..5, 1u32..5),
            permits in 1u32..8,
        ) {
            let mut share = FairShare::new(&[3, 1, 2], &[Some(kind_permits.0), Some(kind_permits.1)], permits);
            let claims: Vec<Claim> = slots
                .iter()
                .map(|&(suite, kind)| Claim { suite: SuiteIndex(suite), kind: KindIndex(kind) })
                .collect();
            for (number, claim) in claims.iter().enumerate() {
                share.push(SlotId(number as u32), *claim);
            }
            let mut granted = BTreeSet::new();
            while granted.len() < claims.len() {
                let mut round = Vec::new();
                while let Some(slot) = share.grant() {
                    prop_assert!(granted.insert(slot));
                    round.push(claims[slot.0 as usize]);
                }
                prop_assert!(!round.is_empty() && round.len() <= permits as usize);
                let of_kind = |kind: usize| round.iter().filter(|claim| claim.kind.0 == kind).count() as u32;
                prop_assert!(of_kind(0) <= kind_permits.0 && of_kind(1) <= kind_permits.1);
                round.into_iter().for_each(|claim| share.release(claim));
            }
            prop_assert_eq!(share.open(), 0);
        }
    }
}
