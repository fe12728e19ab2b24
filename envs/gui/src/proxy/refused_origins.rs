//! Origins that pages requested and the proxy refused.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Maximum number of remembered origins; a page can make up any number of them.
const MAX_ORIGINS: usize = 100;

/// Distinct origins. Their order of arrival is random, and not kept.
#[derive(Debug, Default)]
pub(super) struct RefusedOrigins {
    origins: Mutex<BTreeSet<String>>,
}

impl RefusedOrigins {
    pub(super) fn add(&self, origin: &str) {
        let mut origins = self.lock();
        if origins.len() < MAX_ORIGINS {
            origins.insert(origin.to_owned());
        }
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        // Each change is one insert.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_distinct_bounded_and_in_order() {
        let refused = RefusedOrigins::default();
        for origin in ["http://b.example", "http://a.example", "http://b.example"] {
            refused.add(origin);
        }
        assert_eq!(refused.list(), ["http://a.example", "http://b.example"]);
        for number in (0..1_000).chain(0..1_000) {
            refused.add(&format!("http://{number}.example"));
        }
        let list = refused.list();
        assert_eq!((list.len(), list[0].as_str()), (MAX_ORIGINS, "http://0.example"));
        assert!(list.is_sorted());
    }
}
