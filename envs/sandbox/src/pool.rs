//! A pool of things that are slow to make and quick to hand out: sandboxes with a shell at its prompt.
//!
//! I1. No lock is held while something is made. I2. What is made for a caller that gave up goes into the
//! pool, not to waste. I3. After `close` nothing is handed out or kept.
//!
//! Cancellation: dropping a `lease` future loses nothing, because making runs in tasks of its own.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault};
use tokio::sync::oneshot;

/// When to make more ahead of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmMarks {
    /// Below this many ready ones of a kind, more are made.
    pub low: u32,
    /// Up to this many. 0 makes nothing ahead.
    pub high: u32,
}

/// Makes one of a kind.
pub type Maker<K, T> = dyn Fn(K) -> BoxFuture<'static, Result<T, Fault>> + Send + Sync;

/// The pool. Clones share it.
pub struct WarmPool<K, T> {
    shared: Arc<Shared<K, T>>,
}

impl<K, T> Clone for WarmPool<K, T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<K, T> {
    marks: WarmMarks,
    make: Box<Maker<K, T>>,
    state: Mutex<State<K, T>>,
}

struct State<K, T> {
    closed: bool,
    kinds: HashMap<K, Kind<T>>,
}

struct Kind<T> {
    ready: Vec<T>,
    /// Being made for the pool, not for a caller.
    making: u32,
}

impl<K, T> WarmPool<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Send + 'static,
{
    /// An empty pool.
    pub fn new(
        marks: WarmMarks,
        make: impl Fn(K) -> BoxFuture<'static, Result<T, Fault>> + Send + Sync + 'static,
    ) -> Self {
        let state = Mutex::new(State { closed: false, kinds: HashMap::new() });
        Self { shared: Arc::new(Shared { marks, make: Box::new(make), state }) }
    }

    /// A ready one of this kind, or else a new one. Starts making more when few are left.
    ///
    /// # Errors
    /// The maker's fault, or `shut-down` after `close`.
    pub async fn lease(&self, kind: &K) -> Result<T, Fault> {
        let (ready, missing) = {
            let mut state = self.lock();
            if state.closed {
                return Err(shut_down());
            }
            let entry = state.kinds.entry(kind.clone()).or_insert_with(Kind::empty);
            let ready = entry.ready.pop();
            let marks = self.shared.marks;
            let have = entry.ready.len() as u32 + entry.making;
            let missing = if have < marks.low { marks.high.saturating_sub(have) } else { 0 };
            entry.making += missing;
            (ready, missing)
        };
        for _ in 0..missing {
            // A failure ahead of need is nobody's fault yet; whoever needs one will see it.
            drop(self.make_for_pool(kind.clone()));
        }
        match ready {
            Some(ready) => Ok(ready),
            None => self.make_for_caller(kind.clone()).await,
        }
    }

    /// Starts making `count` of this kind, at once, and waits for them when awaited.
    ///
    /// # Errors
    /// The first fault; what was made stays.
    pub fn fill(&self, kind: &K, count: u32) -> impl Future<Output = Result<(), Fault>> + use<K, T> {
        self.lock().kinds.entry(kind.clone()).or_insert_with(Kind::empty).making += count;
        let made: Vec<_> = (0..count).map(|_| self.make_for_pool(kind.clone())).collect();
        async move {
            let mut first_fault = Ok(());
            for result in made {
                let result = result.await.unwrap_or_else(|_| Err(shut_down()));
                first_fault = first_fault.and(result);
            }
            first_fault
        }
    }

    /// How many are ready.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.lock().kinds.values().map(|kind| kind.ready.len() as u32).sum()
    }

    /// Drops what is ready and everything that is made from now on.
    pub fn close(&self) {
        let kinds = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.kinds)
        };
        // Outside the lock: dropping a sandbox may take a moment.
        drop(kinds);
    }

    fn make_for_pool(&self, kind: K) -> oneshot::Receiver<Result<(), Fault>> {
        let (tell, told) = oneshot::channel();
        let pool = self.clone();
        let making = (self.shared.make)(kind.clone());
        tokio::spawn(async move {
            let made = making.await;
            pool.made(&kind);
            let result = made.map(|item| pool.keep(&kind, item));
            let _ = tell.send(result);
        });
        told
    }

    async fn make_for_caller(&self, kind: K) -> Result<T, Fault> {
        let (tell, told) = oneshot::channel();
        let pool = self.clone();
        let making = (self.shared.make)(kind.clone());
        tokio::spawn(async move {
            let made = making.await;
            if let Err(Ok(unwanted)) = tell.send(made) {
                pool.keep(&kind, unwanted);
            }
        });
        let lost = |_| Fault::permanent(Boundary::Harness, "panic", "making an environment panicked");
        told.await.map_err(lost)?
    }

    fn made(&self, kind: &K) {
        if let Some(entry) = self.lock().kinds.get_mut(kind) {
            entry.making = entry.making.saturating_sub(1);
        }
    }

    fn keep(&self, kind: &K, item: T) {
        let mut state = self.lock();
        if !state.closed {
            state.kinds.entry(kind.clone()).or_insert_with(Kind::empty).ready.push(item);
            return;
        }
        drop(state);
        drop(item);
    }

    fn lock(&self) -> MutexGuard<'_, State<K, T>> {
        // Every change under the lock is one push, pop or count; a panic cannot leave it half done.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kind<T> {
    fn empty() -> Self {
        Self { ready: Vec::new(), making: 0 }
    }
}

fn shut_down() -> Fault {
    Fault::permanent(Boundary::Provider, "shut-down", "the pool was shut down")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn counting(marks: WarmMarks) -> (WarmPool<&'static str, u32>, Arc<AtomicU32>) {
        let made = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&made);
        let pool = WarmPool::new(marks, move |kind: &'static str| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::task::yield_now().await;
                if kind == "broken" { Err(shut_down()) } else { Ok(number) }
            })
        });
        (pool, made)
    }

    async fn until(mut holds: impl FnMut() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn ready_ones_are_used_first_and_replaced() {
        let (pool, made) = counting(WarmMarks { low: 2, high: 4 });
        pool.fill(&"a", 2).await.unwrap();
        assert_eq!((pool.ready(), made.load(Ordering::SeqCst)), (2, 2));
        pool.lease(&"a").await.unwrap();
        until(|| pool.ready() == 4).await;
        assert_eq!(made.load(Ordering::SeqCst), 5);
    }

    #[tokio::test]
    async fn kinds_are_not_mixed() {
        let (pool, made) = counting(WarmMarks { low: 0, high: 0 });
        pool.fill(&"a", 1).await.unwrap();
        assert_eq!(pool.lease(&"b").await, Ok(1));
        assert_eq!((pool.ready(), made.load(Ordering::SeqCst)), (1, 2));
    }

    #[tokio::test]
    async fn what_a_caller_gave_up_on_is_kept() {
        let (pool, _) = counting(WarmMarks { low: 0, high: 0 });
        {
            let mut lease = std::pin::pin!(pool.lease(&"a"));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(lease.as_mut().poll(&mut cx).is_pending());
        }
        until(|| pool.ready() == 1).await;
    }

    #[tokio::test]
    async fn faults_reach_whoever_needs_one() {
        let (pool, _) = counting(WarmMarks { low: 1, high: 2 });
        assert!(pool.fill(&"broken", 2).await.is_err());
        assert!(pool.lease(&"broken").await.is_err());
        assert_eq!(pool.ready(), 0);
    }

    #[tokio::test]
    async fn nothing_after_close() {
        let (pool, _) = counting(WarmMarks { low: 0, high: 0 });
        pool.fill(&"a", 3).await.unwrap();
        pool.close();
        assert_eq!(pool.ready(), 0);
        assert!(pool.lease(&"a").await.is_err());
    }
}
