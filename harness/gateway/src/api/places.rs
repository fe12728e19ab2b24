//! How many answers may be on their way at once: in all, and of one user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ApiError;
use crate::UserId;

/// Places for answers.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    most_of_user: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<UserId, usize>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    user: UserId,
    taken: Arc<Mutex<Taken>>,
}

impl Places {
    pub(super) fn new(most: usize, most_of_user: usize) -> Self {
        Self { most, most_of_user, taken: Arc::default() }
    }

    /// A place, or what the user is told. A user cannot take the places of others by asking again and again.
    pub(super) fn take(&self, user: &UserId) -> Result<Place, ApiError> {
        let mut taken = lock(&self.taken);
        let of_user = taken.of.get(user).copied().unwrap_or_default();
        if of_user >= self.most_of_user {
            let message = format!("{of_user} answers of this key are on their way; wait for one of them");
            return Err(ApiError::too_many(message));
        }
        if taken.all >= self.most {
            let message = "all places are taken; come again";
            let wait = Some(std::time::Duration::from_secs(1));
            return Err(ApiError::unavailable("server_busy", message, wait));
        }
        taken.all += 1;
        *taken.of.entry(user.clone()).or_default() += 1;
        Ok(Place { user: user.clone(), taken: Arc::clone(&self.taken) })
    }

    /// Answers on their way.
    pub(super) fn running(&self) -> usize {
        lock(&self.taken).all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(of_user) = taken.of.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.of.remove(&self.user);
            }
        }
    }
}

/// Nothing that panics runs under the lock.
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_is_theirs() {
        let places = Places::new(3, 2);
        let [ada, bob, eve] = ["ada", "bob", "eve"].map(|name| UserId(name.to_owned()));
        let code = |place: Result<Place, ApiError>| place.unwrap_err().status().as_u16();
        let first = places.take(&ada).unwrap();
        let second = places.take(&ada).unwrap();
        assert_eq!(code(places.take(&ada)), 429);
        let third = places.take(&bob).unwrap();
        assert_eq!(code(places.take(&eve)), 503);
        drop(first);
        let fourth = places.take(&eve).unwrap();
        assert_eq!(places.running(), 3);
        drop((second, third, fourth));
        assert_eq!(places.running(), 0);
        assert!(lock(&places.taken).of.is_empty());
    }
}
