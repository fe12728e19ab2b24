//! User ids of sandboxes, for a root harness: each sandbox has its own on the host.

use std::sync::{Arc, Mutex};

/// Host user ids of sandboxes, for a root harness. Each is used by one sandbox at a time.
#[derive(Debug, Clone)]
pub(crate) struct IdentityPool {
    free: Arc<Mutex<FreeIds>>,
}

#[derive(Debug)]
struct FreeIds {
    returned: Vec<u32>,
    next: u32,
    end: u32,
}

/// Above the ranges of systemd, containers and `useradd`, and below 2^31.
const FIRST_ID: u32 = 1_900_000_000;

/// Maximum number of sandboxes of one harness process: more than a machine has terminals.
const IDS_PER_PROCESS: u32 = 7_000;

impl IdentityPool {
    /// The range of this process; another running harness has a different one.
    pub(crate) fn of_this_process() -> Self {
        let first = FIRST_ID + (std::process::id() % 32_768) * IDS_PER_PROCESS;
        let free = FreeIds { returned: Vec::new(), next: first, end: first + IDS_PER_PROCESS };
        Self { free: Arc::new(Mutex::new(free)) }
    }

    /// Takes a free id; `None` when all are in use.
    pub(crate) fn take(&self) -> Option<Identity> {
        let mut free = self.lock();
        let id = free.returned.pop().or_else(|| {
            let id = free.next;
            (id < free.end).then(|| {
                free.next += 1;
                id
            })
        })?;
        Some(Identity { id, pool: self.clone() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FreeIds> {
        // The lock guards two numbers and a list, which are valid after any panic.
        self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A host user id. Drop it only after every process of that user has ended.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) id: u32,
    pool: IdentityPool,
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.pool.lock().returned.push(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_while_held() {
        let pool = IdentityPool::of_this_process();
        let first = pool.take().unwrap();
        let second = pool.take().unwrap();
        assert_ne!(first.id, second.id);
        let old = first.id;
        drop(first);
        assert_eq!(pool.take().unwrap().id, old);
        let all: Vec<Identity> = std::iter::from_fn(|| pool.take()).collect();
        assert!(pool.take().is_none() && all.len() < IDS_PER_PROCESS as usize);
    }
}
