//! An adaptive punishment of long replies: it grows while replies are longer than the target, and shrinks otherwise.
//!
//! I1. The punishment's strength is between 0 and its coefficient. It is 0 until the mean reply of an update is longer than the target, a
//! multiple of that of the first update; it rises by a tenth of the coefficient with each update that is above, and falls as fast with
//! each that is not. I2. An episode whose mean reply is within the target is not punished; beyond it the punishment falls in a straight
//! line, to its full strength at twice the target. I3. An update without replies is ignored.
//!
//! Units: lengths in tokens; punishments in reward units. Pure; nothing to cancel.
//! Source: the control of [`crate::EntropyControl`], with the sign of a cost; punishment of long replies in the reward: Kimi k1.5, arXiv
//! 2501.12599, section 2.3.3. Deviations: the length limit is a multiple of the first update's mean, not of the shortest in the
//! group; the strength is controlled, not scheduled; wrong replies are punished like right ones.

use serde::{Deserialize, Serialize};

use crate::ramp::Ramp;

/// Settings of the punishment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthCost {
    /// Maximum penalty on an episode; above 0.
    pub coefficient: f64,
    /// Multiple of the first update's mean reply above which the punishment rises; at least 1.
    pub target: f64,
}

/// The number and total length of replies, of one or several episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replies {
    /// Number of replies.
    pub count: u64,
    /// Tokens in all replies.
    pub tokens: u64,
}

impl Replies {
    /// Mean tokens of a reply; `None` without replies.
    #[must_use]
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.tokens as f64 / self.count as f64)
    }
}

impl std::ops::AddAssign for Replies {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.tokens += other.tokens;
    }
}

/// The current state of the length penalty: part of the snapshot of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LengthControl(Ramp);

/// The current punishment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LengthPunishment {
    strength: f64,
    /// Mean reply length in tokens above which an episode is punished.
    target: f64,
}

impl LengthControl {
    /// Whether no update was measured yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.0.first().is_none()
    }

    /// The current maximum penalty on an episode.
    #[must_use]
    pub fn strength(&self, cost: LengthCost) -> f64 {
        self.0.strength(cost.coefficient)
    }

    /// The current penalty on an episode.
    pub(crate) fn punishment(&self, cost: LengthCost) -> Option<LengthPunishment> {
        let (strength, target) = (self.strength(cost), self.0.first()? * cost.target);
        (strength > 0.0).then_some(LengthPunishment { strength, target })
    }

    /// Records an update with these replies.
    pub fn after(&mut self, cost: LengthCost, replies: Replies) {
        let Some(mean) = replies.mean() else { return };
        self.0.after(mean, |mean, first| mean > cost.target * first);
    }
}

impl LengthPunishment {
    /// The punishment of an episode with these replies: from minus the strength to 0.
    pub(crate) fn of(self, replies: Replies) -> f64 {
        let mean = replies.mean().unwrap_or_default();
        // A target of 0 tokens belongs to a policy with empty replies.
        let beyond = (mean - self.target) / self.target.max(1.0);
        -self.strength * beyond.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COST: LengthCost = LengthCost { coefficient: 0.5, target: 1.5 };

    fn replies(tokens: u64) -> Replies {
        Replies { count: 2, tokens: 2 * tokens }
    }

    fn check(lengths: &[u64], expected: &[f64]) {
        let mut control = LengthControl::default();
        for (&length, expected) in lengths.iter().zip(expected) {
            control.after(COST, replies(length));
            assert!((control.strength(COST) - expected).abs() < 1e-12, "{lengths:?}: {control:?}");
        }
    }

    #[test]
    fn i1_it_comes_and_goes() {
        check(&[10, 14, 15, 16, 30, 15, 15, 15], &[0.0, 0.0, 0.0, 0.05, 0.1, 0.05, 0.0, 0.0]);
        let mut long = vec![40; 13];
        long[0] = 10;
        let rises: Vec<f64> = (0..13).map(|at| 0.05 * f64::from(at.min(10))).collect();
        check(&long, &rises);
        // The multiple is relative to the first update.
        check(&[10, 2, 14], &[0.0, 0.0, 0.0]);
    }

    #[test]
    fn i3_nothing_is_said_by_nothing() {
        let mut control = LengthControl::default();
        control.after(COST, Replies::default());
        assert!(control.is_new());
        [10, 20].iter().for_each(|&length| control.after(COST, replies(length)));
        let before = control;
        control.after(COST, Replies::default());
        assert_eq!(control, before);
    }

    #[test]
    fn i2_punishments_by_hand() {
        let mut control = LengthControl::default();
        control.after(COST, replies(10));
        assert_eq!(control.punishment(COST), None);
        (0..20).for_each(|_| control.after(COST, replies(40)));
        let punishment = control.punishment(COST).unwrap();
        let check = |tokens: u64, expected: f64| {
            let found = punishment.of(replies(tokens));
            assert!((found - expected).abs() < 1e-12, "{tokens}: {found}");
        };
        check(0, 0.0);
        check(15, 0.0);
        check(18, -0.1);
        check(24, -0.3);
        check(30, -0.5);
        check(300, -0.5);
        assert_eq!(punishment.of(Replies::default()), 0.0);
    }

    #[test]
    fn as_written() {
        let mut control = LengthControl::default();
        [10, 40].iter().for_each(|&length| control.after(COST, replies(length)));
        let text = serde_json::to_string(&control).unwrap();
        assert_eq!(text, r#"{"first":10.0,"steps":1}"#);
        assert_eq!(serde_json::from_str::<LengthControl>(&text).unwrap(), control);
    }

    proptest! {
        /// I1 and I2.
        #[test]
        fn longer_replies_never_earn_more(lengths in prop::collection::vec(0u64..60, 1..30), at in 0u64..99) {
            let mut control = LengthControl::default();
            for length in lengths {
                control.after(COST, replies(length));
                let strength = control.strength(COST);
                prop_assert!((0.0..=COST.coefficient).contains(&strength));
                let of = |length| control.punishment(COST).map_or(0.0, |punishment| punishment.of(replies(length)));
                prop_assert!((-strength..=0.0).contains(&of(at)));
                prop_assert!(of(at + 1) <= of(at));
            }
        }
    }
}
