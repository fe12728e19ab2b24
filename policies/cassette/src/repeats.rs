//! How many times an attempt has made the same request.
//!
//! I1. Counts are those of one attempt: other attempts change nothing. I2. Of an attempt that is over nothing is kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use clawrl_core::AttemptId;

use crate::canonical::Hash;

/// Counts of one attempt, by request and seed.
type Counts = HashMap<(Hash, u64), u32>;

/// Counts, by attempt.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    made: Mutex<HashMap<AttemptId, Counts>>,
}

impl Repeats {
    /// Number of earlier equal requests, with this seed, by the attempt.
    pub(crate) fn before(&self, attempt: AttemptId, asked: Hash, seed: u64) -> u32 {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let count = made.entry(attempt).or_default().entry((asked, seed)).or_insert(0);
        let before = *count;
        *count += 1;
        before
    }

    /// The attempt is over (I2).
    pub(crate) fn forget(&self, attempt: AttemptId) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&attempt);
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::SlotId;
    use serde_json::json;

    use super::*;

    #[test]
    fn i1_i2_attempts_count_for_themselves() {
        let repeats = Repeats::default();
        let attempt = |slot: u32| AttemptId { slot: SlotId(slot), number: 0 };
        let check = |slot: u32, asked: &str, seed: u64, expected: u32| {
            assert_eq!(
                repeats.before(attempt(slot), Hash::of(&json!(asked)), seed),
                expected,
                "{slot} {asked}"
            );
        };
        check(0, "a", 1, 0);
        check(0, "a", 1, 1);
        check(0, "b", 1, 0);
        check(0, "a", 2, 0);
        check(1, "a", 1, 0);
        repeats.forget(attempt(0));
        check(0, "a", 1, 0);
        check(1, "a", 1, 1);
    }
}
