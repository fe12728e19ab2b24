//! Shares one device between engine and learner: the learner works in segments and yields to the engine between two of them.
//!
//! An engine that shares a device or its cores with a learner waits for it: a token sampled while a layer of thousands of
//! rows is computed is late. So the engine has priority. While it has sequences to sample, the learner gets a segment only
//! after some steps of the engine: after each step if its segments are short, and otherwise so rarely that fewer than one
//! token in twenty waits for one. If the engine has nothing to sample, the learner continues without waiting.
//!
//! I1. No step of the engine and no segment of the learner overlap. I2. No side starves: the learner waits for at most
//! [`STEPS_BETWEEN`] steps, the engine for the admitted segments. I3. The holder of a turn never waits for the other side.
//! I4. An engine that ends in any way, and a learner that panics, block no one else. I5. Turns affect when a computation
//! runs, never its result.
//!
//! Several threads of a learner, or several engines, may hold a turn at once. Waiting threads sleep until the other side
//! signals a change; nothing polls. Nothing to cancel: a turn is a step or a segment, and ends by itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps of the engine between two long segments: fewer than one token in twenty is delayed, so 95 % of tokens arrive as
/// without a learner.
const STEPS_BETWEEN: u32 = 24;

/// A segment is short up to this many times the duration of a step: a token that waits for one takes three times its usual
/// time.
const SHORT: u32 = 2;

/// Arbiter between learners and engines; by default each works as if alone. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Turns(Option<Arc<Shared>>);

/// Two values are equal if they share a device.
impl PartialEq for Turns {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Turns {}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of engines with sequences to sample.
    busy: u32,
    /// Number of engines in a step.
    stepping: u32,
    /// Number of learner threads in a segment.
    learning: u32,
    /// Number of learner threads that wait.
    waiting: u32,
    /// Number of waiting learner threads that go before the engine.
    let_in: u32,
    /// Steps since a learner was admitted.
    steps: u32,
    /// Recent duration of a step.
    step: Duration,
    /// Recent duration of the longer segments.
    segment: Duration,
}

impl State {
    /// Whether a waiting learner is due.
    fn is_due(&self) -> bool {
        let between = if self.segment <= self.step * SHORT { 1 } else { STEPS_BETWEEN };
        self.waiting > 0 && self.steps >= between
    }

    fn after_step(&mut self, took: Duration) {
        self.step = if self.step.is_zero() { took } else { (self.step * 7 + took) / 8 };
    }

    /// Falls slowly, because backward segments take twice as long as forward ones and both recur.
    fn after_segment(&mut self, took: Duration) {
        self.segment = took.max(self.segment * 7 / 8);
    }
}

impl Shared {
    /// The content of the mutex is consistent between two statements, so a thread that panicked has left nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    /// Creates an arbiter for a shared device.
    #[must_use]
    pub fn shared() -> Self {
        Self(Some(Arc::default()))
    }

    /// The handle of an engine.
    pub(crate) fn engine(&self) -> EngineTurns {
        EngineTurns { shared: self.0.clone(), is_busy: false }
    }

    /// Waits for a turn of a learner thread, which ends when it is dropped.
    pub(crate) fn learn(&self) -> LearnerTurn {
        let mut turn = LearnerTurn { shared: self.0.clone(), began: None };
        turn.begin();
        turn
    }
}

/// See [`Turns::engine`].
#[derive(Debug)]
pub(crate) struct EngineTurns {
    shared: Option<Arc<Shared>>,
    is_busy: bool,
}

impl EngineTurns {
    /// Makes a step, after running segments have ended.
    pub(crate) fn step<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let Some(shared) = self.shared.clone() else { return step() };
        {
            let mut state = shared.state();
            if !self.is_busy {
                self.is_busy = true;
                state.busy += 1;
            }
            if state.is_due() {
                state.steps = 0;
                state.let_in = state.waiting;
                shared.changed.notify_all();
            }
            while state.let_in > 0 || state.learning > 0 {
                state = shared.wait(state);
            }
            state.stepping += 1;
        }
        let stepping = Stepping { shared: &shared, began: Instant::now() };
        let result = step();
        drop(stepping);
        result
    }

    /// Reports that the engine has nothing to sample, so that the learner need not wait.
    pub(crate) fn rest(&mut self) {
        let Some(shared) = self.shared.as_ref().filter(|_| self.is_busy) else { return };
        self.is_busy = false;
        shared.state().busy -= 1;
        shared.changed.notify_all();
    }
}

impl Drop for EngineTurns {
    fn drop(&mut self) {
        self.rest();
    }
}

/// A running step, which also ends if it panics (I4).
struct Stepping<'a> {
    shared: &'a Shared,
    began: Instant,
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let mut state = self.shared.state();
        state.stepping -= 1;
        state.steps = state.steps.saturating_add(1);
        state.after_step(took);
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// See [`Turns::learn`].
#[derive(Debug)]
pub(crate) struct LearnerTurn {
    shared: Option<Arc<Shared>>,
    /// Start of the segment; `None` between two segments.
    began: Option<Instant>,
}

impl LearnerTurn {
    /// Yields between two segments if the engine has priority.
    pub(crate) fn pause(&mut self) {
        self.end();
        self.begin();
    }

    fn begin(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        state.waiting += 1;
        while state.stepping > 0 || (state.let_in == 0 && state.busy > 0) {
            state = shared.wait(state);
        }
        state.let_in = state.let_in.saturating_sub(1);
        state.waiting -= 1;
        state.learning += 1;
        self.began = Some(Instant::now());
    }

    fn end(&mut self) {
        let (Some(shared), Some(began)) = (&self.shared, self.began.take()) else { return };
        let mut state = shared.state();
        state.learning -= 1;
        state.after_segment(began.elapsed());
        drop(state);
        shared.changed.notify_all();
    }
}

impl Drop for LearnerTurn {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Runs `work` with a timeout that only a deadlock reaches.
    fn in_time(work: impl FnOnce() + Send + 'static) {
        let (done, hear) = mpsc::channel();
        let thread = thread::spawn(move || {
            work();
            let _ = done.send(());
        });
        let ended = hear.recv_timeout(Duration::from_secs(60));
        assert!(ended != Err(mpsc::RecvTimeoutError::Timeout), "everybody waits for everybody");
        thread.join().unwrap();
    }

    /// Counts the holders of each side, and detects an overlap.
    #[derive(Default)]
    struct Door {
        stepping: AtomicI32,
        learning: AtomicI32,
        overlapped: AtomicBool,
    }

    impl Door {
        fn through(&self, own: &AtomicI32, other: &AtomicI32) {
            own.fetch_add(1, Ordering::SeqCst);
            for _ in 0..50 {
                if other.load(Ordering::SeqCst) > 0 {
                    self.overlapped.store(true, Ordering::SeqCst);
                }
                std::hint::spin_loop();
            }
            own.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// I1 and I2, with several threads on both sides.
    #[test]
    fn i1_nobody_overlaps_and_everybody_ends() {
        in_time(|| {
            for (engines, learners) in [(1, 1), (1, 3), (2, 2)] {
                let (turns, door) = (Turns::shared(), Arc::new(Door::default()));
                let mut threads = Vec::new();
                for number in 0..engines {
                    let (turns, door) = (turns.clone(), Arc::clone(&door));
                    threads.push(thread::spawn(move || {
                        let mut turns = turns.engine();
                        for step in 0..2_000 {
                            turns.step(|| door.through(&door.stepping, &door.learning));
                            if (step + number) % 37 == 0 {
                                turns.rest();
                            }
                        }
                    }));
                }
                for _ in 0..learners {
                    let (turns, door) = (turns.clone(), Arc::clone(&door));
                    threads.push(thread::spawn(move || {
                        for segments in 0..60 {
                            let mut turn = turns.learn();
                            for _ in 0..segments % 7 {
                                door.through(&door.learning, &door.stepping);
                                turn.pause();
                            }
                        }
                    }));
                }
                for thread in threads {
                    thread.join().unwrap();
                }
                assert!(!door.overlapped.load(Ordering::SeqCst), "{engines} and {learners}");
                let state = turns.0.as_ref().unwrap().state();
                assert_eq!((state.busy, state.stepping, state.learning, state.waiting), (0, 0, 0, 0));
            }
        });
    }

    /// I2: an engine that never rests admits a learner, after a number of steps that depends on the length of segments.
    #[test]
    fn i2_a_busy_engine_lets_the_learner_in_now_and_then() {
        for (segment, between) in [(Duration::ZERO, 1), (Duration::from_secs(1), STEPS_BETWEEN)] {
            in_time(move || {
                let turns = Turns::shared();
                let (steps, learned) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
                let mut engine = turns.engine();
                engine.step(|| ());
                {
                    let mut state = turns.0.as_ref().unwrap().state();
                    (state.segment, state.step, state.steps) = (segment, Duration::from_millis(10), 0);
                }
                let learner = {
                    let (turns, steps, learned) = (turns.clone(), Arc::clone(&steps), Arc::clone(&learned));
                    thread::spawn(move || {
                        let turn = turns.learn();
                        learned.store(true, Ordering::SeqCst);
                        let seen = steps.load(Ordering::SeqCst);
                        drop(turn);
                        seen
                    })
                };
                // Waits until the learner waits; then the engine makes steps until the learner was admitted.
                while turns.0.as_ref().unwrap().state().waiting == 0 {
                    thread::yield_now();
                }
                while !learned.load(Ordering::SeqCst) {
                    engine.step(|| steps.fetch_add(1, Ordering::SeqCst));
                }
                let seen = learner.join().unwrap();
                assert!(seen <= between && seen + 1 >= between, "{seen} steps, not {between}");
            });
        }
    }

    #[test]
    fn without_anything_to_sample_a_learner_works_on() {
        in_time(|| {
            let turns = Turns::shared();
            let mut engine = turns.engine();
            engine.step(|| ());
            engine.rest();
            let mut turn = turns.learn();
            for _ in 0..10 {
                turn.pause();
            }
        });
    }

    /// I4.
    #[test]
    fn whoever_panics_holds_up_nobody() {
        in_time(|| {
            let turns = Turns::shared();
            let engine = {
                let turns = turns.clone();
                thread::spawn(move || turns.engine().step(|| panic!("a defect")))
            };
            assert!(engine.join().is_err());
            let learner = {
                let turns = turns.clone();
                thread::spawn(move || {
                    let _turn = turns.learn();
                    panic!("a defect")
                })
            };
            assert!(learner.join().is_err());
            turns.engine().step(|| ());
            drop(turns.learn());
        });
    }

    #[test]
    fn without_turns_nobody_waits() {
        let turns = Turns::default();
        let turn = turns.learn();
        let mut other = turns.learn();
        assert_eq!(turns.engine().step(|| 7), 7);
        other.pause();
        drop(turn);
        assert!(turns == Turns::default() && turns != Turns::shared() && Turns::shared() != Turns::shared());
    }
}
