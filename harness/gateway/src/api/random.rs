//! Random numbers for seeds and ids.

/// A number from the system's source; without one, a hash of the time.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::time::SystemTime::now())
    })
}
