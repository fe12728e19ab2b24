//! Signs that a policy collapses: low entropy, replies that become shorter or longer, or repeated text.
//!
//! I1. A sign counts only if it is seen in several updates in a row: one batch of easy tasks is not a collapse. I2. An update
//! without trained tokens is ignored: it neither extends nor ends such a row.
//!
//! Units: entropy in nats a token; lengths in tokens of a reply; repetition as a share. Pure; nothing to cancel.
//! Source: bounds from practice with clipped policy gradients; none of them is a theorem.

use std::collections::HashSet;

/// Bounds beyond which a policy counts as collapsed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollapseBounds {
    /// Minimum entropy, as a share of the entropy of the first update.
    pub entropy: f64,
    /// Minimum mean reply length, as a share of the length in the first update.
    pub shortest: f64,
    /// Maximum mean reply length, as a share of the length in the first update.
    pub longest: f64,
    /// Maximum share of a reply's runs of four tokens that repeat earlier ones.
    pub repetition: f64,
    /// Updates in a row that show a sign before it counts; at least 1.
    pub updates: u32,
}

/// The signs that are checked after an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vitals {
    /// Mean over trained tokens.
    pub entropy: f64,
    /// Mean over replies.
    pub reply_tokens: f64,
    /// Mean over replies of [`repetition`].
    pub repetition: f64,
}

/// A sign, with the measured value and its bound.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Collapse {
    /// The policy has stopped exploring.
    #[error("the entropy fell to {now:.4} nats a token, from {first:.4} at the first update")]
    Entropy {
        /// The current value.
        now: f64,
        /// The value at the first update.
        first: f64,
    },
    /// Replies are almost empty.
    #[error("replies shrank to {now:.1} tokens, from {first:.1} at the first update")]
    Short {
        /// The current value.
        now: f64,
        /// The value at the first update.
        first: f64,
    },
    /// Replies do not end.
    #[error("replies grew to {now:.1} tokens, from {first:.1} at the first update")]
    Long {
        /// The current value.
        now: f64,
        /// The value at the first update.
        first: f64,
    },
    /// Replies repeat the same text.
    #[error("{:.0} % of what replies say repeats what they said before", 100.0 * now)]
    Repetition {
        /// The current value.
        now: f64,
    },
}

/// Watches the updates of one training.
#[derive(Debug, Clone, PartialEq)]
pub struct CollapseGuard {
    bounds: CollapseBounds,
    first: Option<Vitals>,
    in_a_row: u32,
}

impl CollapseGuard {
    /// A guard for a new training. A resumed training is checked again from its first update.
    #[must_use]
    pub fn new(bounds: CollapseBounds) -> Self {
        Self { bounds, first: None, in_a_row: 0 }
    }

    /// Checks one more update that trained tokens. Returns a sign that was seen often enough, and restarts its count.
    pub fn after(&mut self, now: Vitals) -> Option<Collapse> {
        let first = *self.first.get_or_insert(now);
        let sign = self.bounds.sign(&first, &now);
        self.in_a_row = if sign.is_some() { self.in_a_row + 1 } else { 0 };
        let counts = self.in_a_row >= self.bounds.updates;
        if counts {
            self.in_a_row = 0;
        }
        sign.filter(|_| counts)
    }
}

impl CollapseBounds {
    fn sign(&self, first: &Vitals, now: &Vitals) -> Option<Collapse> {
        if now.entropy < self.entropy * first.entropy {
            return Some(Collapse::Entropy { now: now.entropy, first: first.entropy });
        }
        let lengths = (now.reply_tokens, first.reply_tokens);
        if now.reply_tokens < self.shortest * first.reply_tokens {
            return Some(Collapse::Short { now: lengths.0, first: lengths.1 });
        }
        if now.reply_tokens > self.longest * first.reply_tokens {
            return Some(Collapse::Long { now: lengths.0, first: lengths.1 });
        }
        (now.repetition > self.repetition).then_some(Collapse::Repetition { now: now.repetition })
    }
}

/// The share of a reply's runs of four tokens that occur earlier in it; 0 of a reply with fewer than five tokens.
#[must_use]
pub fn repetition(reply: &[u32]) -> f64 {
    let runs = reply.windows(4);
    let all = runs.len();
    if all < 2 {
        return 0.0;
    }
    let different: HashSet<&[u32]> = runs.collect();
    (all - different.len()) as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: CollapseBounds =
        CollapseBounds { entropy: 0.25, shortest: 0.5, longest: 2.0, repetition: 0.2, updates: 2 };
    const FIRST: Vitals = Vitals { entropy: 0.8, reply_tokens: 10.0, repetition: 0.0 };

    fn check(later: &[Vitals], expected: Option<Collapse>) {
        let mut guard = CollapseGuard::new(BOUNDS);
        assert_eq!(guard.after(FIRST), None);
        let found = later.iter().find_map(|&now| guard.after(now));
        assert_eq!(found, expected);
    }

    #[test]
    fn i1_signs_count_in_a_row() {
        let dull = Vitals { entropy: 0.19, ..FIRST };
        check(&[Vitals { entropy: 0.21, ..FIRST }; 5], None);
        check(&[dull, FIRST, dull, FIRST], None);
        check(&[FIRST, dull, dull], Some(Collapse::Entropy { now: 0.19, first: 0.8 }));
        let mut guard = CollapseGuard::new(BOUNDS);
        let told = [FIRST, dull, dull, dull, dull].map(|now| guard.after(now).is_some());
        assert_eq!(told, [false, false, true, false, true], "whoever goes on is told again");
    }

    #[test]
    fn lengths_and_repetition() {
        let of = |reply_tokens| [Vitals { reply_tokens, ..FIRST }; 2];
        check(&of(4.9), Some(Collapse::Short { now: 4.9, first: 10.0 }));
        check(&of(5.1), None);
        check(&of(19.9), None);
        check(&of(20.1), Some(Collapse::Long { now: 20.1, first: 10.0 }));
        check(&[Vitals { repetition: 0.21, ..FIRST }; 2], Some(Collapse::Repetition { now: 0.21 }));
        check(&[Vitals { repetition: 0.19, ..FIRST }; 2], None);
    }

    #[test]
    fn runs_of_four_that_stood_before() {
        let check = |reply: &[u32], expected: f64| assert_eq!(repetition(reply), expected, "{reply:?}");
        check(&[], 0.0);
        check(&[1, 1, 1, 1], 0.0);
        check(&[1, 1, 1, 1, 1], 0.5);
        check(&[1, 2, 3, 4, 1, 2, 3, 4], 0.2);
        check(&[1, 2, 3, 4, 5, 6, 7, 8], 0.0);
        check(&[7; 104], 100.0 / 101.0);
    }
}
