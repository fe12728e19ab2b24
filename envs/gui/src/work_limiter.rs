//! Limits how many local browsers work at the same time.
//!
//! Pages, drivers and page waits depend on the clock. If fifty browsers share two cores and all get work at once, each
//! answers late, and waits end before their events. With a limit, the same work takes no longer in total, and each page
//! has about the time that it would have on its own machine.
//!
//! R1. First come, first served.
//! R2. A permit ends with the work, or after [`MAX_HOLD`]: pages that load for long and agents that wait do not block
//! others.
//! R3. Dropping the future gives the permit back.

use std::num::NonZero;
use std::pin::pin;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Concurrent permits per core: enough to use it while some browsers wait for frames.
const PER_CORE: usize = 4;

/// Longest time that a permit is held.
const MAX_HOLD: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct WorkLimiter(Semaphore);

impl Default for WorkLimiter {
    fn default() -> Self {
        Self::new(PER_CORE * available_parallelism().map_or(1, NonZero::get))
    }
}

impl WorkLimiter {
    fn new(at_once: usize) -> Self {
        Self(Semaphore::new(at_once))
    }

    pub(crate) async fn take<T>(&self, work: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let turn = self.0.acquire().await;
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            // timer: the end of the permit
            () = tokio::time::sleep(MAX_HOLD) => drop(turn),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Runs this many works of this length, started at once: the time of the last end, and the highest number of
    /// concurrent ones.
    async fn run(works: usize, long: Duration, at_once: usize) -> (Duration, usize) {
        let turns = Arc::new(WorkLimiter::new(at_once));
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begun = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..works {
            let (turns, busy, most) = (Arc::clone(&turns), Arc::clone(&busy), Arc::clone(&most));
            all.spawn(async move {
                turns
                    .take(async {
                        most.fetch_max(busy.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        sleep(long).await;
                        busy.fetch_sub(1, Ordering::Relaxed);
                    })
                    .await;
            });
        }
        all.join_all().await;
        (begun.elapsed(), most.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_limited_and_the_rest_waits() {
        let (took, most) = run(12, Duration::from_millis(500), 4).await;
        assert_eq!((took.as_millis() / 100, most), (15, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_does_not_block_others() {
        let (took, most) = run(12, Duration::from_secs(60), 4).await;
        // The last ones start after two rounds.
        assert_eq!((took.as_secs(), most), (64, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_work_returns_its_permit() {
        let turns = WorkLimiter::new(1);
        let given_up =
            tokio::time::timeout(Duration::from_millis(1), turns.take(std::future::pending::<()>()));
        assert!(given_up.await.is_err());
        let begun = Instant::now();
        turns.take(async {}).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
