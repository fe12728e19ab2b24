//! Keeps idle items for reuse, for a limited time.
//!
//! D1. Beyond the maximum the oldest items are dropped.
//! D2. An item that stays unused for [`MAX_IDLE`] is dropped.
//! D3. Nothing is dropped under the lock: ending a browser may take a moment.
//!
//! Cancellation: the cleanup task ends with the pool, and when the pool is empty.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Time after which an unused item is dropped.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// Items of several kinds; the newest is taken first.
#[derive(Debug)]
pub(crate) struct IdlePool<K, T> {
    kept: Arc<Mutex<PoolState<K, T>>>,
}

#[derive(Debug)]
struct PoolState<K, T> {
    /// Oldest first.
    items: Vec<(Instant, K, T)>,
    /// The cleanup task, while there are items.
    watch: Option<AbortHandle>,
}

impl<K, T> Default for IdlePool<K, T> {
    fn default() -> Self {
        Self { kept: Arc::new(Mutex::new(PoolState { items: Vec::new(), watch: None })) }
    }
}

impl<K: PartialEq + Send + 'static, T: Send + 'static> IdlePool<K, T> {
    pub(crate) fn put(&self, kind: K, item: T) {
        let mut kept = lock(&self.kept);
        kept.items.push((Instant::now(), kind, item));
        if kept.watch.is_none() {
            kept.watch = Some(tokio::spawn(watch(Arc::clone(&self.kept))).abort_handle());
        }
    }

    /// Drops all but the newest `most`.
    pub(crate) fn keep(&self, most: usize) {
        let surplus: Vec<_> = {
            let mut kept = lock(&self.kept);
            let surplus = kept.items.len().saturating_sub(most);
            kept.items.drain(..surplus).collect()
        };
        drop(surplus);
    }

    pub(crate) fn take(&self, kind: &K) -> Option<T> {
        let mut kept = lock(&self.kept);
        let at = kept.items.iter().rposition(|(_, known, _)| known == kind)?;
        Some(kept.items.remove(at).2)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).items.len()
    }

    pub(crate) fn clear(&self) {
        let items = std::mem::take(&mut lock(&self.kept).items);
        drop(items);
    }
}

impl<K, T> Drop for IdlePool<K, T> {
    fn drop(&mut self) {
        let watch = lock(&self.kept).watch.take();
        watch.iter().for_each(AbortHandle::abort);
    }
}

async fn watch<K, T>(shelf: Arc<Mutex<PoolState<K, T>>>) {
    loop {
        let next = {
            let mut kept = lock(&shelf);
            match kept.items.first() {
                Some((since, ..)) => *since + MAX_IDLE,
                None => {
                    kept.watch = None;
                    return;
                }
            }
        };
        // timer: until the oldest item expires
        tokio::time::sleep_until(next).await;
        let old: Vec<_> = {
            let mut kept = lock(&shelf);
            let now = Instant::now();
            let count = kept.items.iter().take_while(|(since, ..)| *since + MAX_IDLE <= now).count();
            kept.items.drain(..count).collect()
        };
        drop(old);
    }
}

fn lock<K, T>(kept: &Mutex<PoolState<K, T>>) -> MutexGuard<'_, PoolState<K, T>> {
    // Each change is one push, remove or drain.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(shelf: &IdlePool<&'static str, Arc<()>>, item: &Arc<()>) -> (usize, usize) {
        (shelf.len(), Arc::strong_count(item) - 1)
    }

    #[tokio::test(start_paused = true)]
    async fn d1_the_oldest_make_way() {
        let shelf = IdlePool::default();
        for (number, kind) in ["a", "b", "a", "a"].into_iter().enumerate() {
            shelf.put(kind, number);
        }
        shelf.keep(2);
        assert_eq!(
            (shelf.take(&"b"), shelf.take(&"a"), shelf.take(&"a"), shelf.take(&"a")),
            (None, Some(3), Some(2), None)
        );
        shelf.put("a", 4);
        shelf.keep(0);
        assert_eq!(shelf.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn d2_unused_item_is_dropped() {
        let (shelf, item) = (IdlePool::default(), Arc::new(()));
        // Repeatedly: an earlier cleanup task may have ended meanwhile.
        for _ in 0..2 {
            shelf.put("a", Arc::clone(&item));
            tokio::time::sleep(MAX_IDLE / 2).await;
            shelf.put("a", Arc::clone(&item));
            assert_eq!(drops(&shelf, &item), (2, 2));
            tokio::time::sleep(MAX_IDLE / 2 + Duration::from_secs(1)).await;
            assert_eq!(drops(&shelf, &item), (1, 1));
            tokio::time::sleep(MAX_IDLE).await;
            assert_eq!(drops(&shelf, &item), (0, 0));
        }
        shelf.put("a", Arc::clone(&item));
        shelf.clear();
        assert_eq!(drops(&shelf, &item), (0, 0));
        shelf.put("a", Arc::clone(&item));
        drop(shelf);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
