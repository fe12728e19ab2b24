//! Sandboxes end a portion at a time, however many are told to at once.
//!
//! What the kernel keeps of a sandbox's call filter is freed by its background workers after the end. On Linux 6.18 a
//! machine was seen that hung for good after 3,000 sandboxes with three filters each had ended in the same moment: as
//! many workers as there may be (1,024) waited for one that waited for work queued behind them. A portion far below
//! that number leaves room, and costs nothing: a processor ends no more than some hundred a second.
//!
//! I1. Whoever was told to end is killed: at once while fewer than [`AT_ONCE`] are ending, else when one of those has
//! ended. I2. One that ends by itself, before or while it waits, takes no place.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are ending at once; the spawner, which ends what its harness left behind, keeps to it, too.
pub(crate) const AT_ONCE: usize = 256;

/// What can be ended.
pub(super) trait End {
    /// Kills it. Returns at once.
    fn kill(&self);
}

/// Who is ending, and who waits for a place.
#[derive(Debug)]
pub(super) struct EndQueue<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    under_way: Vec<Arc<T>>,
    waiting: VecDeque<Arc<T>>,
}

impl<T> Default for EndQueue<T> {
    fn default() -> Self {
        Self(Mutex::new(State { under_way: Vec::new(), waiting: VecDeque::new() }))
    }
}

impl<T: End> EndQueue<T> {
    /// Kills it now, or when there is a place. Doing it again changes nothing.
    pub(super) fn end(&self, one: &Arc<T>) {
        let mut state = self.lock();
        let known = |other: &Arc<T>| Arc::ptr_eq(other, one);
        if state.under_way.iter().any(known) || state.waiting.iter().any(known) {
            return;
        }
        if state.under_way.len() < AT_ONCE {
            state.under_way.push(Arc::clone(one));
            drop(state);
            one.kill();
        } else {
            state.waiting.push_back(Arc::clone(one));
        }
    }

    /// It has ended, told to or not: its place goes to the next.
    pub(super) fn ended(&self, one: &Arc<T>) {
        let mut state = self.lock();
        state.waiting.retain(|other| !Arc::ptr_eq(other, one));
        let before = state.under_way.len();
        state.under_way.retain(|other| !Arc::ptr_eq(other, one));
        if state.under_way.len() == before {
            return;
        }
        let Some(next) = state.waiting.pop_front() else { return };
        state.under_way.push(Arc::clone(&next));
        drop(state);
        next.kill();
    }

    /// Whether it was told to end and has not been killed yet.
    pub(super) fn is_waiting(&self, one: &Arc<T>) -> bool {
        self.lock().waiting.iter().any(|other| Arc::ptr_eq(other, one))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Every change under the lock is a push or a removal; a panic cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl End for Counted {
        fn kill(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn kills(all: &[Arc<Counted>]) -> u32 {
        all.iter().map(|one| one.0.load(Ordering::SeqCst)).sum()
    }

    fn many(count: usize) -> (EndQueue<Counted>, Vec<Arc<Counted>>) {
        let queue = EndQueue::default();
        let all: Vec<_> = (0..count).map(|_| Arc::new(Counted::default())).collect();
        all.iter().for_each(|one| queue.end(one));
        (queue, all)
    }

    #[test]
    fn a_portion_at_a_time_and_each_once() {
        let (queue, all) = many(3 * AT_ONCE);
        all.iter().for_each(|one| queue.end(one));
        assert_eq!(kills(&all), AT_ONCE as u32);
        for (ended, one) in all.iter().enumerate() {
            assert_eq!(one.0.load(Ordering::SeqCst), 1);
            queue.ended(one);
            assert_eq!(kills(&all) as usize, (AT_ONCE + ended + 1).min(all.len()));
        }
        assert!(all.iter().all(|one| one.0.load(Ordering::SeqCst) == 1));
    }

    #[test]
    fn what_ends_by_itself_takes_no_place() {
        let (queue, all) = many(AT_ONCE + 2);
        let (first, last) = (&all[AT_ONCE], &all[AT_ONCE + 1]);
        assert!(queue.is_waiting(first) && queue.is_waiting(last));
        queue.ended(first);
        queue.ended(&Arc::new(Counted::default()));
        assert_eq!(kills(&all), AT_ONCE as u32);
        queue.ended(&all[0]);
        assert!(!queue.is_waiting(last));
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
    }
}
