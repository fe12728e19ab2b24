//! What pages asked for in vain.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Origins that are remembered; a page can make up any number of them.
const MOST: usize = 100;

/// Distinct origins, in the order in which they were refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    origins: Mutex<Origins>,
}

#[derive(Debug, Default)]
struct Origins {
    known: HashSet<String>,
    in_order: Vec<String>,
}

impl Refused {
    pub(super) fn add(&self, origin: &str) {
        let mut origins = self.lock();
        if origins.in_order.len() < MOST && origins.known.insert(origin.to_owned()) {
            origins.in_order.push(origin.to_owned());
        }
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.lock().in_order.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Origins> {
        // A panic between the two changes only loses one of them.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_distinct_and_bounded() {
        let refused = Refused::default();
        for number in (0..1_000).chain(0..1_000) {
            refused.add(&format!("http://{number}.example"));
        }
        let list = refused.list();
        assert_eq!((list.len(), list[0].as_str()), (MOST, "http://0.example"));
    }
}
