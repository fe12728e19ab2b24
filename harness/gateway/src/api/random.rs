//! Random numbers, for seeds that nobody gave and ids that nobody is to guess.

/// A number that the system's source gives, or where there is none, the time's hash: uniqueness then is as good as the clock's.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::time::SystemTime::now())
    })
}
