//! A pool of items that are slow to create and fast to hand out: sandboxes with a shell at its prompt.
//!
//! I1. No lock is held while an item is created.
//! I2. An item whose caller has gone away goes into the pool and is not wasted.
//! I3. After `close` nothing is handed out or kept.
//! I4. The pool never creates more spare items of a kind than leases are still expected: if every task has its own
//! image, a spare item would never be used.
//!
//! Cancellation: dropping a `lease` future loses nothing, because items are created in their own tasks.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault, LeaseRequest, Limit};
use tokio::sync::oneshot;

/// When to create items ahead of demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmMarks {
    /// Creation starts when fewer items of a kind are ready.
    pub low: u32,
    /// Creation stops at this number. 0 disables it.
    pub high: u32,
}

/// Creates an item of a kind.
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
    /// Items being created for the pool, not for a caller.
    making: u32,
    /// Callers that wait for an item being created, first come, first served. Never more than `making`, except for
    /// callers that have gone away.
    waiting: VecDeque<oneshot::Sender<Result<T, Fault>>>,
    to_come: u32,
}

impl<K, T> WarmPool<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Send + 'static,
{
    /// Creates an empty pool. `expected` is the number of leases of each kind; more are allowed.
    pub fn new(
        marks: WarmMarks,
        expected: impl IntoIterator<Item = (K, u32)>,
        make: impl Fn(K) -> BoxFuture<'static, Result<T, Fault>> + Send + Sync + 'static,
    ) -> Self {
        let mut kinds: HashMap<K, Kind<T>> = HashMap::new();
        for (kind, leases) in expected {
            let entry = kinds.entry(kind).or_insert_with(Kind::empty);
            entry.to_come = entry.to_come.saturating_add(leases);
        }
        let state = Mutex::new(State { closed: false, kinds });
        Self { shared: Arc::new(Shared { marks, make: Box::new(make), state }) }
    }

    /// Hands out a ready item of this kind, or creates one. Starts creating more when few are left.
    ///
    /// # Errors
    /// The maker's fault, or `shut-down` after `close`.
    pub async fn lease(&self, kind: &K) -> Result<T, Fault> {
        let (found, missing) = {
            let mut state = self.lock();
            if state.closed {
                return Err(shut_down());
            }
            let entry = state.kinds.entry(kind.clone()).or_insert_with(Kind::empty);
            entry.to_come = entry.to_come.saturating_sub(1);
            let found = entry.find();
            let marks = self.shared.marks;
            let spare = entry.spare();
            let wanted = if spare < marks.low { marks.high.min(entry.to_come) } else { 0 };
            let missing = wanted.saturating_sub(spare);
            entry.making += missing;
            (found, missing)
        };
        for _ in 0..missing {
            // A failure ahead of demand is not reported; the caller that needs an item will see it.
            drop(self.make_for_pool(kind.clone()));
        }
        match found {
            LeaseSource::Ready(ready) => Ok(ready),
            LeaseSource::Making(receiver) => receiver.await.map_err(|_| shut_down())?,
            LeaseSource::Nothing => self.make_for_caller(kind.clone()).await,
        }
    }

    /// As [`Self::lease`], until the request is cancelled or its deadline passes.
    ///
    /// # Errors
    /// Also a transient `cancelled`, and the lease limit when the deadline has passed.
    pub async fn lease_for(&self, kind: &K, request: &LeaseRequest) -> Result<T, Fault> {
        tokio::select! {
            biased;
            () = request.cancel.cancelled() => {
                Err(Fault::transient(Boundary::Provider, "cancelled", "the lease was cancelled"))
            }
            leased = tokio::time::timeout_at(request.deadline.into(), self.lease(kind)) => {
                let limit = request.task.timeouts.lease;
                leased.unwrap_or_else(|_| Err(Fault::limit(Boundary::Provider, Limit::Lease, limit)))
            }
        }
    }

    /// Creates these numbers of these kinds; all are started before the first is awaited.
    ///
    /// # Errors
    /// The first fault; items created so far stay.
    pub async fn fill_all(&self, shares: impl IntoIterator<Item = (K, u32)>) -> Result<(), Fault> {
        let fills: Vec<_> = shares.into_iter().map(|(kind, count)| self.fill(&kind, count)).collect();
        let mut first_fault = Ok(());
        for fill in fills {
            first_fault = first_fault.and(fill.await);
        }
        first_fault
    }

    /// Starts creating `count` items of this kind at once, and waits for them when awaited.
    ///
    /// # Errors
    /// The first fault; items created so far stay.
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

    /// Number of ready items.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.lock().kinds.values().map(|kind| kind.ready.len() as u32).sum()
    }

    /// Drops ready items, and all that are created from now on.
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
        let (sender, receiver) = oneshot::channel();
        let pool = self.clone();
        // In its own task: if it panics, the waiting caller gets an error.
        let making = tokio::spawn((self.shared.make)(kind.clone()));
        tokio::spawn(async move {
            let made = making.await.unwrap_or_else(|_| Err(panicked()));
            let result = made.as_ref().map(|_| ()).map_err(Clone::clone);
            pool.made(&kind, made);
            let _ = sender.send(result);
        });
        receiver
    }

    async fn make_for_caller(&self, kind: K) -> Result<T, Fault> {
        let (sender, receiver) = oneshot::channel();
        let pool = self.clone();
        let making = (self.shared.make)(kind.clone());
        tokio::spawn(async move {
            let made = making.await;
            if let Err(Ok(unwanted)) = sender.send(made) {
                pool.hand_out(&kind, Ok(unwanted));
            }
        });
        receiver.await.map_err(|_| panicked())?
    }

    fn made(&self, kind: &K, made: Result<T, Fault>) {
        if let Some(entry) = self.lock().kinds.get_mut(kind) {
            entry.making = entry.making.saturating_sub(1);
        }
        self.hand_out(kind, made);
    }

    /// Gives it to the first waiting caller, or to the pool. A fault without a waiting caller is dropped.
    fn hand_out(&self, kind: &K, mut made: Result<T, Fault>) {
        let mut state = self.lock();
        if !state.closed {
            let entry = state.kinds.entry(kind.clone()).or_insert_with(Kind::empty);
            while let Some(caller) = entry.waiting.pop_front() {
                match caller.send(made) {
                    Ok(()) => return,
                    Err(unwanted) => made = unwanted,
                }
            }
            if let Ok(item) = made {
                entry.ready.push(item);
            }
            return;
        }
        drop(state);
        // Outside the lock: dropping a sandbox may take a moment.
        drop(made);
    }

    fn lock(&self) -> MutexGuard<'_, State<K, T>> {
        // Every change under the lock is one push, pop or count, so a panic cannot leave it half done.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kind<T> {
    fn empty() -> Self {
        Self { ready: Vec::new(), making: 0, waiting: VecDeque::new(), to_come: 0 }
    }

    /// Items that are ready or being created and not yet promised to a caller.
    fn spare(&self) -> u32 {
        (self.ready.len() as u32 + self.making).saturating_sub(self.waiting.len() as u32)
    }

    fn find(&mut self) -> LeaseSource<T> {
        if let Some(ready) = self.ready.pop() {
            return LeaseSource::Ready(ready);
        }
        self.waiting.retain(|caller| !caller.is_closed());
        if self.spare() == 0 {
            return LeaseSource::Nothing;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(sender);
        LeaseSource::Making(receiver)
    }
}

enum LeaseSource<T> {
    Ready(T),
    /// An item being created for the pool.
    Making(oneshot::Receiver<Result<T, Fault>>),
    Nothing,
}

fn panicked() -> Fault {
    Fault::permanent(Boundary::Harness, "panic", "creating an environment panicked")
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
        let expected = [("a", 100), ("broken", 100), ("once", 1), ("thrice", 2), ("thrice", 1)];
        let pool = WarmPool::new(marks, expected, move |kind: &'static str| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::task::yield_now().await;
                assert_ne!(kind, "panics", "as it should");
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
    async fn i2_item_of_dropped_lease_is_kept() {
        let (pool, _) = counting(WarmMarks { low: 0, high: 0 });
        {
            let mut lease = std::pin::pin!(pool.lease(&"a"));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(lease.as_mut().poll(&mut cx).is_pending());
        }
        until(|| pool.ready() == 1).await;
    }

    #[tokio::test]
    async fn faults_reach_waiting_callers() {
        let (pool, _) = counting(WarmMarks { low: 1, high: 2 });
        assert!(pool.fill(&"broken", 2).await.is_err());
        assert!(pool.lease(&"broken").await.is_err());
        let filled = pool.fill(&"panics", 1);
        let (leased, filled) = tokio::join!(pool.lease(&"panics"), filled);
        assert_eq!((leased, filled), (Err(panicked()), Err(panicked())));
        assert_eq!(pool.ready(), 0);
    }

    #[tokio::test]
    async fn i4_no_spare_beyond_expected_leases() {
        let (pool, made) = counting(WarmMarks { low: 2, high: 4 });
        pool.lease(&"once").await.unwrap();
        pool.lease(&"never heard of").await.unwrap();
        let (first, second, third) =
            tokio::join!(pool.lease(&"thrice"), pool.lease(&"thrice"), pool.lease(&"thrice"));
        let mut numbers = [first.unwrap(), second.unwrap(), third.unwrap()];
        numbers.sort_unstable();
        assert_eq!((numbers, made.load(Ordering::SeqCst), pool.ready()), ([2, 3, 4], 5, 0));
        // One more than expected, as after a retry.
        assert_eq!(pool.lease(&"thrice").await, Ok(5));
        assert_eq!(made.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn dropped_lease_takes_nothing() {
        let (pool, made) = counting(WarmMarks { low: 0, high: 0 });
        let filled = pool.fill(&"a", 1);
        {
            let mut lease = std::pin::pin!(pool.lease(&"a"));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(lease.as_mut().poll(&mut cx).is_pending());
        }
        let (leased, filled) = tokio::join!(pool.lease(&"a"), filled);
        assert_eq!((leased, filled, made.load(Ordering::SeqCst), pool.ready()), (Ok(0), Ok(()), 1, 0));
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
