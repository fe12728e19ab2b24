//! Limits concurrent requests and observes the pauses that a server requests.
//!
//! I1. The number of places limits the requests in flight. I2. After a server requests a pause, no request begins before
//! its end, regardless of which request received it. I3. A wait ends before the deadline of its request. I4. Places are
//! granted in the order of requests, and dropping a place frees it.
//!
//! Cancellation: dropping the future gives up the wait.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::trouble::Trouble;

/// Shared by all requests of a policy.
#[derive(Debug)]
pub(crate) struct Pace {
    places: Semaphore,
    size: u32,
    /// No request begins before this time.
    held_until: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(size: u32) -> Self {
        Self { places: Semaphore::new(size as usize), size, held_until: Mutex::default() }
    }

    /// Holds all requests for a while.
    pub(crate) fn hold(&self, wait: Duration) {
        let Some(until) = Instant::now().checked_add(wait) else { return };
        let mut held = self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(held.map_or(until, |before| before.max(until)));
    }

    /// Waits until a request may begin. `spread` is added to a pause, so that not all begin at its end at once.
    pub(crate) async fn enter(
        &self,
        give_up: Instant,
        spread: Duration,
    ) -> Result<SemaphorePermit<'_>, Trouble> {
        loop {
            self.wait_for_release(give_up, spread).await?;
            let place = timeout_at(give_up, self.places.acquire()).await;
            // The semaphore is never closed, so an error is a timeout.
            let Ok(Ok(place)) = place else {
                let message = format!(
                    "none of the {} places for requests was free in time; raise `concurrency` of the policy, or \
                     lower the run's",
                    self.size
                );
                return Err(Trouble::later("no-place", message));
            };
            // The server may have requested a pause during the wait for a place.
            if self.held().is_none() {
                return Ok(place);
            }
        }
    }

    async fn wait_for_release(&self, give_up: Instant, spread: Duration) -> Result<(), Trouble> {
        while let Some(until) = self.held() {
            let until = until + spread;
            // A pause beyond the deadline is also waited for: a retry would have to wait for it as well.
            sleep_until(until.min(give_up)).await;
            if until > give_up {
                let message = "the server asked to be left alone for longer than this reply may take";
                return Err(Trouble::later("rate-limited", message));
            }
        }
        Ok(())
    }

    fn held(&self) -> Option<Instant> {
        let held = self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(secs: u64) -> Instant {
        Instant::now() + Duration::from_secs(secs)
    }

    #[tokio::test(start_paused = true)]
    async fn i2_a_pause_holds_everyone_and_ends() {
        let pace = Pace::new(1);
        pace.hold(Duration::from_secs(5));
        pace.hold(Duration::from_secs(3));
        let began = Instant::now();
        let place = pace.enter(after(60), Duration::from_secs(1)).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 6);
        drop(place);
        assert!(pace.enter(after(1), Duration::ZERO).await.is_ok());
        assert_eq!(began.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn i3_a_pause_that_is_too_long_is_a_trouble_in_time() {
        let pace = Pace::new(1);
        pace.hold(Duration::from_secs(500));
        let began = Instant::now();
        let trouble = pace.enter(after(10), Duration::ZERO).await.unwrap_err();
        assert_eq!((trouble.code, began.elapsed().as_secs()), ("rate-limited", 10));
    }

    #[tokio::test(start_paused = true)]
    async fn i1_i4_places_are_bounded_and_come_back() {
        let pace = Pace::new(2);
        let (one, two) =
            (pace.enter(after(1), Duration::ZERO).await, pace.enter(after(1), Duration::ZERO).await);
        let trouble = pace.enter(after(1), Duration::ZERO).await.unwrap_err();
        assert_eq!(trouble.code, "no-place");
        assert!(trouble.message.contains("2 places"), "{trouble}");
        drop(one);
        assert!(pace.enter(after(1), Duration::ZERO).await.is_ok());
        drop(two);
    }

    #[tokio::test(start_paused = true)]
    async fn i2_a_pause_that_begins_while_a_place_is_waited_for_counts() {
        let pace = Pace::new(1);
        let place = pace.enter(after(1), Duration::ZERO).await.unwrap();
        let began = Instant::now();
        let waiting = pace.enter(after(60), Duration::ZERO);
        let told = async {
            pace.hold(Duration::from_secs(7));
            drop(place);
        };
        let (got, ()) = tokio::join!(waiting, told);
        assert!(got.is_ok());
        assert_eq!(began.elapsed().as_secs(), 7);
    }
}
