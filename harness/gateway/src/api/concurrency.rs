//! Limits of concurrent requests: in total, and per user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ApiError;
use crate::UserId;

/// A limit, in total and per user.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    max: usize,
    max_per_user: usize,
    counts: Arc<Mutex<InUse>>,
}

#[derive(Debug, Default)]
struct InUse {
    all: usize,
    per_user: HashMap<UserId, usize>,
}

/// One of the permitted requests; dropping it releases the permit.
#[derive(Debug)]
pub(super) struct Permit {
    user: UserId,
    counts: Arc<Mutex<InUse>>,
}

impl ConcurrencyLimit {
    pub(super) fn new(max: usize, max_per_user: usize) -> Self {
        Self { max, max_per_user, counts: Arc::default() }
    }

    /// A permit, or the error for the user. A user cannot exhaust the total limit by repeated requests.
    pub(super) fn acquire(&self, user: &UserId) -> Result<Permit, ApiError> {
        let mut counts = lock(&self.counts);
        let of_user = counts.per_user.get(user).copied().unwrap_or_default();
        if of_user >= self.max_per_user {
            let message =
                format!("{of_user} concurrent answers of this key, the maximum; wait for one to end");
            return Err(ApiError::too_many(message));
        }
        if counts.all >= self.max {
            let message = "the server is busy; retry later";
            let wait = Some(std::time::Duration::from_secs(1));
            return Err(ApiError::unavailable("server_busy", message, wait));
        }
        counts.all += 1;
        *counts.per_user.entry(user.clone()).or_default() += 1;
        Ok(Permit { user: user.clone(), counts: Arc::clone(&self.counts) })
    }

    /// Number of permits in use.
    pub(super) fn in_use(&self) -> usize {
        lock(&self.counts).all
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.all -= 1;
        if let Some(of_user) = counts.per_user.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                counts.per_user.remove(&self.user);
            }
        }
    }
}

/// No code that can panic runs under the lock.
fn lock(counts: &Mutex<InUse>) -> MutexGuard<'_, InUse> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_holds_in_total_and_per_user() {
        let limit = ConcurrencyLimit::new(3, 2);
        let [ada, bob, eve] = ["ada", "bob", "eve"].map(|name| UserId(name.to_owned()));
        let code = |permit: Result<Permit, ApiError>| permit.unwrap_err().status().as_u16();
        let first = limit.acquire(&ada).unwrap();
        let second = limit.acquire(&ada).unwrap();
        assert_eq!(code(limit.acquire(&ada)), 429);
        let third = limit.acquire(&bob).unwrap();
        assert_eq!(code(limit.acquire(&eve)), 503);
        drop(first);
        let fourth = limit.acquire(&eve).unwrap();
        assert_eq!(limit.in_use(), 3);
        drop((second, third, fourth));
        assert_eq!(limit.in_use(), 0);
        assert!(lock(&limit.counts).per_user.is_empty());
    }
}
