//! A pool of things that are slow to make and quick to hand out: sandboxes with a shell at its prompt.
//!
//! I1. No lock is held while something is made. I2. What is made for a caller that gave up goes into the
//! pool, not to waste. I3. After `close` nothing is handed out or kept. I4. Ahead of need no more of a kind is made than
//! leases of it are still to come: where every task has an image of its own, a spare one would be wanted by nobody.
//!
//! Cancellation: dropping a `lease` future loses nothing, because making runs in tasks of its own.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault, LeaseRequest, Limit};
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
    /// Callers that take what is being made, first come, first served. Never more than `making`, but for callers that
    /// gave up.
    waiting: VecDeque<oneshot::Sender<Result<T, Fault>>>,
    /// Leases that are still to come.
    to_come: u32,
}

impl<K, T> WarmPool<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Send + 'static,
{
    /// An empty pool. `expected` says how many leases of each kind are to come; more than that may.
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

    /// A ready one of this kind, or else a new one. Starts making more when few are left.
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
            // A failure ahead of need is nobody's fault yet; whoever needs one will see it.
            drop(self.make_for_pool(kind.clone()));
        }
        match found {
            LeaseSource::Ready(ready) => Ok(ready),
            LeaseSource::Making(told) => told.await.map_err(|_| shut_down())?,
            LeaseSource::Nothing => self.make_for_caller(kind.clone()).await,
        }
    }

    /// As [`Self::lease`], for as long as the request is worth something.
    ///
    /// # Errors
    /// Besides, a transient `cancelled` when it was given up, and the lease limit when its deadline is over.
    pub async fn lease_for(&self, kind: &K, request: &LeaseRequest) -> Result<T, Fault> {
        tokio::select! {
            biased;
            () = request.cancel.cancelled() => {
                Err(Fault::transient(Boundary::Provider, "cancelled", "the lease was given up"))
            }
            leased = tokio::time::timeout_at(request.deadline.into(), self.lease(kind)) => {
                let limit = request.task.timeouts.lease;
                leased.unwrap_or_else(|_| Err(Fault::limit(Boundary::Provider, Limit::Lease, limit)))
            }
        }
    }

    /// Makes these numbers of these kinds; all are started before the first is awaited.
    ///
    /// # Errors
    /// The first fault; what was made stays.
    pub async fn fill_all(&self, shares: impl IntoIterator<Item = (K, u32)>) -> Result<(), Fault> {
        let fills: Vec<_> = shares.into_iter().map(|(kind, count)| self.fill(&kind, count)).collect();
        let mut first_fault = Ok(());
        for fill in fills {
            first_fault = first_fault.and(fill.await);
        }
        first_fault
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
        // In a task of its own: if it panics, whoever waits for it hears of it.
        let making = tokio::spawn((self.shared.make)(kind.clone()));
        tokio::spawn(async move {
            let made = making.await.unwrap_or_else(|_| Err(panicked()));
            let result = made.as_ref().map(|_| ()).map_err(Clone::clone);
            pool.made(&kind, made);
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
                pool.hand_out(&kind, Ok(unwanted));
            }
        });
        told.await.map_err(|_| panicked())?
    }

    fn made(&self, kind: &K, made: Result<T, Fault>) {
        if let Some(entry) = self.lock().kinds.get_mut(kind) {
            entry.making = entry.making.saturating_sub(1);
        }
        self.hand_out(kind, made);
    }

    /// To the first who waits, or into the pool. A fault that nobody waits for is nobody's.
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
        // Every change under the lock is one push, pop or count; a panic cannot leave it half done.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kind<T> {
    fn empty() -> Self {
        Self { ready: Vec::new(), making: 0, waiting: VecDeque::new(), to_come: 0 }
    }

    /// Ready, or being made, and nobody's yet.
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
        let (tell, told) = oneshot::channel();
        self.waiting.push_back(tell);
        LeaseSource::Making(told)
    }
}

/// What a lease finds.
enum LeaseSource<T> {
    Ready(T),
    /// One that is being made for the pool.
    Making(oneshot::Receiver<Result<T, Fault>>),
    Nothing,
}

fn panicked() -> Fault {
    Fault::permanent(Boundary::Harness, "panic", "making an environment panicked")
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
        let filled = pool.fill(&"panics", 1);
        let (leased, filled) = tokio::join!(pool.lease(&"panics"), filled);
        assert_eq!((leased, filled), (Err(panicked()), Err(panicked())));
        assert_eq!(pool.ready(), 0);
    }

    #[tokio::test]
    async fn i4_nothing_is_made_that_nobody_will_want() {
        let (pool, made) = counting(WarmMarks { low: 2, high: 4 });
        pool.lease(&"once").await.unwrap();
        pool.lease(&"never heard of").await.unwrap();
        let (first, second, third) =
            tokio::join!(pool.lease(&"thrice"), pool.lease(&"thrice"), pool.lease(&"thrice"));
        let mut numbers = [first.unwrap(), second.unwrap(), third.unwrap()];
        numbers.sort_unstable();
        assert_eq!((numbers, made.load(Ordering::SeqCst), pool.ready()), ([2, 3, 4], 5, 0));
        // One more than was expected, as after a retry.
        assert_eq!(pool.lease(&"thrice").await, Ok(5));
        assert_eq!(made.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_takes_nothing() {
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
