//! Limits how many sandboxes are being killed at the same time.
//!
//! The kernel frees a sandbox's call filter in background workers after the sandbox has ended. On Linux 6.18 one
//! machine hung for good after 3,000 sandboxes with three filters each had ended in the same moment: the maximum number
//! of workers (1,024) waited for one that waited for work queued behind them. A limit far below that number leaves
//! room, and costs nothing: a processor ends only some hundred sandboxes a second.
//!
//! I1. A sandbox that is told to end is killed at once while fewer than [`AT_ONCE`] are ending, otherwise when one of
//! those has ended.
//! I2. A sandbox that ends by itself, before or while it waits, takes no place in the queue. The same holds for one
//! that is told to end after it has ended, as happens to every sandbox that is killed and then dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of sandboxes that are ending at once. The spawner keeps to it, too, when it ends the sandboxes that
/// its harness left behind.
pub(crate) const AT_ONCE: usize = 256;

pub(super) trait Killable {
    /// Sends the kill signal and returns at once.
    fn kill(&self);

    /// Whether it has ended. True before [`KillQueue::ended`] is called.
    fn has_ended(&self) -> bool;
}

/// The sandboxes that are ending, and those that wait for a place.
#[derive(Debug)]
pub(super) struct KillQueue<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    under_way: Vec<Arc<T>>,
    waiting: VecDeque<Arc<T>>,
}

impl<T> Default for KillQueue<T> {
    fn default() -> Self {
        Self(Mutex::new(State { under_way: Vec::new(), waiting: VecDeque::new() }))
    }
}

impl<T: Killable> KillQueue<T> {
    /// Kills it now, or when a place is free. Idempotent.
    pub(super) fn end(&self, one: &Arc<T>) {
        let mut state = self.lock();
        let known = |other: &Arc<T>| Arc::ptr_eq(other, one);
        // Checked under the lock: one that ends after this gives its place back after it was added.
        if one.has_ended() || state.under_way.iter().any(known) || state.waiting.iter().any(known) {
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

    /// Called when one has ended, killed or not; its place goes to the next.
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
        // Every change under the lock is a push or a removal, so a panic cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted {
        kills: AtomicU32,
        ended: AtomicBool,
    }

    impl Killable for Counted {
        fn kill(&self) {
            self.kills.fetch_add(1, Ordering::SeqCst);
        }

        fn has_ended(&self) -> bool {
            self.ended.load(Ordering::SeqCst)
        }
    }

    struct Sandboxes {
        queue: KillQueue<Counted>,
        all: Vec<Arc<Counted>>,
    }

    impl Sandboxes {
        fn new(count: usize) -> Self {
            let all = (0..count).map(|_| Arc::default()).collect();
            Self { queue: KillQueue::default(), all }
        }

        fn told_to_end(count: usize) -> Self {
            let sandboxes = Self::new(count);
            sandboxes.all.iter().for_each(|one| sandboxes.queue.end(one));
            sandboxes
        }

        fn ends(&self, index: usize) {
            self.all[index].ended.store(true, Ordering::SeqCst);
            self.queue.ended(&self.all[index]);
        }

        fn kills(&self, index: usize) -> u32 {
            self.all[index].kills.load(Ordering::SeqCst)
        }

        fn killed(&self) -> usize {
            (0..self.all.len()).filter(|&index| self.kills(index) > 0).count()
        }
    }

    #[test]
    fn i1_kills_are_limited_and_happen_once() {
        let sandboxes = Sandboxes::told_to_end(3 * AT_ONCE);
        sandboxes.all.iter().for_each(|one| sandboxes.queue.end(one));
        assert_eq!(sandboxes.killed(), AT_ONCE);
        for index in 0..sandboxes.all.len() {
            assert_eq!(sandboxes.kills(index), 1);
            sandboxes.ends(index);
            assert_eq!(sandboxes.killed(), (AT_ONCE + index + 1).min(sandboxes.all.len()));
        }
        assert!((0..sandboxes.all.len()).all(|index| sandboxes.kills(index) == 1));
    }

    #[test]
    fn i2_self_ended_takes_no_place() {
        let sandboxes = Sandboxes::told_to_end(AT_ONCE + 2);
        let last = &sandboxes.all[AT_ONCE + 1];
        sandboxes.ends(AT_ONCE);
        assert_eq!(sandboxes.killed(), AT_ONCE);
        assert!(sandboxes.queue.is_waiting(last));
        sandboxes.ends(0);
        assert!(!sandboxes.queue.is_waiting(last));
        assert_eq!((sandboxes.kills(AT_ONCE), sandboxes.kills(AT_ONCE + 1)), (0, 1));
    }

    /// A sandbox that is killed is dropped afterwards; so is one that was never told to end.
    #[test]
    fn i2_ended_before_kill_takes_no_place() {
        let sandboxes = Sandboxes::new(3 * AT_ONCE);
        for index in 0..2 * AT_ONCE {
            if index % 2 == 0 {
                sandboxes.queue.end(&sandboxes.all[index]);
            }
            sandboxes.ends(index);
            sandboxes.queue.end(&sandboxes.all[index]);
        }
        sandboxes.all[2 * AT_ONCE..].iter().for_each(|one| sandboxes.queue.end(one));
        assert_eq!(sandboxes.killed(), 2 * AT_ONCE);
    }
}
