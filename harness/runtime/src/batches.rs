//! Releases repeats batch by batch, with an interim analysis after each batch.
//!
//! I1. A record counts only after it is stored, and an interim analysis reads only the record. I2. The next batch is released
//! when every slot of the earlier batches is closed and the analysis does not end the run. A released batch stays released. I3. A
//! budget releases only as many attempts as it allows, and ends the run when it is used up; running attempts finish. I4. A failed
//! analysis is reported and does not end the run, which continues to its end and is judged with the remaining alpha. I5. A
//! resumed run continues where it was: earlier usage counts, and the analysis after the last complete batch is repeated, because
//! the record does not tell whether it was done.
//!
//! Cancellation: a dropped call leaves its stored record and does not change the demand. The demand closes when `Batches` is
//! dropped.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawrl_config::CiBudget;
use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, RunPlan, SinkError};
use clawrl_record::Run;
use clawrl_regression::{Comparison, InterimAnalysis, InterimSchedule};
use clawrl_scheduler::{Demand, GroupDemand};
use tokio::sync::watch;

use crate::cost_limit::{cost_of, is_used_up};
use crate::progress::Progress;

/// The interim analyses of a run.
pub struct Watch {
    /// The test of the gate.
    pub comparison: Comparison,
    /// Repeats after which an analysis is made.
    pub schedule: InterimSchedule,
    /// The run's folder.
    pub dir: PathBuf,
}

/// Stores records in another sink, and controls the demand.
pub struct Batches {
    kept: Arc<dyn EpisodeSink>,
    demand: watch::Sender<Demand>,
    watch: Option<Arc<Watch>>,
    budget: CiBudget,
    started: Instant,
    /// Duration of the run before it was resumed.
    passed: Duration,
    /// Positions of the slots, in the order of their release.
    order: Arc<[u32]>,
    /// Number of slots released by the end of each batch.
    ends: Vec<usize>,
    state: Mutex<State>,
    /// Receives reports of analyses.
    progress: Option<Arc<dyn Progress>>,
}

/// The state of a run before it is resumed.
#[derive(Debug, Default)]
pub struct Before {
    /// Closed slots.
    pub closed: BTreeSet<u32>,
    /// Granted attempts.
    pub leased: u32,
    /// Cost of replies, billionths of US dollars.
    pub nano_usd: u64,
    /// Duration so far.
    pub passed: Duration,
}

/// The progress of a run.
#[derive(Debug)]
struct State {
    /// The current batch.
    batch: usize,
    /// Open slots of each batch.
    left: Vec<usize>,
    open: usize,
    leased: u32,
    nano_usd: u64,
}

/// The consequence of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    /// The demand closes.
    Close,
    /// This batch is complete.
    Next(usize),
}

impl Batches {
    /// For a run of this plan, whose groups are slots. Releases the first incomplete batch, unless the repeated analysis ends the
    /// run (I5).
    pub fn new(
        plan: &RunPlan,
        before: Before,
        kept: Arc<dyn EpisodeSink>,
        watch: Option<Watch>,
        budget: CiBudget,
        progress: Option<Arc<dyn Progress>>,
    ) -> (Self, watch::Receiver<Demand>) {
        let by_repeat = by_repeat(plan);
        let repeats = by_repeat.len() as u32;
        let looks = watch.as_ref().map_or(vec![repeats], |watch| watch.schedule.repeats().to_vec());
        let released = |seen: &u32| by_repeat.iter().take(*seen as usize).map(Vec::len).sum::<usize>();
        let most = budget.attempts.map_or(usize::MAX, |most| most as usize);
        let ends: Vec<usize> = looks.iter().map(|seen| released(seen).min(most)).collect();
        let order: Arc<[u32]> = by_repeat.into_iter().flatten().collect();
        let Before { closed, leased, nano_usd, passed } = before;
        let open = |slots: &[u32]| slots.iter().filter(|slot| !closed.contains(slot)).count();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let left: Vec<usize> = starts.zip(&ends).map(|(start, end)| open(&order[start..*end])).collect();
        let whole = left.iter().take_while(|left| **left == 0).count();
        let batch = whole.min(ends.len().saturating_sub(1));
        let open = open(&order);
        let state = State { batch, left, open, leased, nano_usd };
        let nothing = Demand { groups: wanted(&order, 0), closed: false };
        let (demand, receiver) = watch::channel(nothing);
        let batches = Self {
            kept,
            demand,
            watch: watch.map(Arc::new),
            budget,
            started: Instant::now(),
            passed,
            order,
            ends,
            state: Mutex::new(state),
            progress,
        };
        if open == 0 {
            // A run without open slots is complete, not stopped early.
            batches.release(batch);
        } else if batches.budget.attempts.is_some_and(|most| leased >= most) {
            batches.close();
        } else if whole == 0 {
            batches.release(0);
        } else {
            let ends = batches.watch.as_ref().is_some_and(|watch| batches.tell(look(watch, whole - 1)));
            batches.after(whole - 1, ends);
        }
        (batches, receiver)
    }

    /// Releases a batch, and all before it.
    fn release(&self, batch: usize) {
        let groups = wanted(&self.order, self.ends.get(batch).copied().unwrap_or(0));
        self.demand.send_modify(|demand| demand.groups = groups);
    }

    fn note_lease(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.leased = state.leased.saturating_add(1);
        if self.budget.attempts.is_some_and(|most| state.leased >= most) {
            self.close();
        }
    }

    fn note(&self, closes_slot: bool, nano_usd: u64) -> Step {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.nano_usd = state.nano_usd.saturating_add(nano_usd);
        state.open = state.open.saturating_sub(usize::from(closes_slot));
        if state.open == 0 {
            return Step::Nothing;
        }
        let minutes = (self.passed + self.started.elapsed()).as_secs_f64() / 60.0;
        let is_used_up = self.budget.minutes.is_some_and(|most| minutes >= most)
            || self.budget.cost_usd.is_some_and(|most| is_used_up(state.nano_usd, most));
        let batch = state.batch;
        if is_used_up {
            return Step::Close;
        }
        let Some(left) = state.left.get_mut(batch).filter(|_| closes_slot) else { return Step::Nothing };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Step::Nothing;
        }
        // A later batch may already be complete, if its slots were filled in another way; it has no analysis.
        let more = state.left.iter().skip(batch + 1).take_while(|left| **left == 0).count();
        state.batch += more + 1;
        Step::Next(batch + more)
    }

    /// After a complete batch: analyses, and releases the next batch.
    async fn go_on(&self, batch: usize) {
        let ends = match self.watch.clone() {
            Some(watch) => {
                let taken = tokio::task::spawn_blocking(move || look(&watch, batch));
                self.tell(taken.await.unwrap_or_else(|error| Err(error.to_string())))
            }
            None => false,
        };
        self.after(batch, ends);
    }

    /// Continues after a complete batch, unless its analysis ends the run.
    fn after(&self, batch: usize, ends: bool) {
        match self.ends.get(batch + 1) {
            Some(end) if !ends && *end > self.ends[batch] => self.release(batch + 1),
            _ => self.close(),
        }
    }

    /// Reports an analysis. Returns whether it ends the run (I4).
    fn tell(&self, taken: Result<InterimAnalysis, String>) -> bool {
        match (taken, &self.progress) {
            (Ok(InterimAnalysis { taken, ends }), Some(progress)) => {
                let z = taken.z.map_or_else(String::new, |z| format!(", z {z:.2}"));
                progress.note(format_args!(
                    "interim analysis after {} repeats{z}: {}",
                    taken.repeats, taken.said
                ));
                ends
            }
            (Ok(look), None) => look.ends,
            (Err(why), _) => {
                tracing::warn!(why, "an interim analysis failed");
                false
            }
        }
    }

    fn close(&self) {
        self.demand.send_modify(|demand| demand.closed = true);
    }
}

impl EpisodeSink for Batches {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            self.kept.leased(lease).await?;
            self.note_lease();
            Ok(())
        })
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            let (closes_slot, cost) = (record.closes_slot, cost_of(&record));
            self.kept.resolved(record).await?;
            match self.note(closes_slot, cost) {
                Step::Nothing => {}
                Step::Close => self.close(),
                Step::Next(batch) => self.go_on(batch).await,
            }
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}

/// The interim analysis of the record after a batch.
fn look(watch: &Watch, at: usize) -> Result<InterimAnalysis, String> {
    let run = Run::open_read(&watch.dir).map_err(|error| error.to_string())?;
    watch.comparison.look(&run, &watch.schedule, at).map_err(|error| error.to_string())
}

fn wanted(order: &[u32], count: usize) -> GroupDemand {
    GroupDemand::These(order.iter().copied().take(count).collect())
}

/// Positions of slots, grouped by their repeat of their task.
fn by_repeat(plan: &RunPlan) -> Vec<Vec<u32>> {
    let mut seen = vec![0usize; plan.tasks.len()];
    let mut repeats: Vec<Vec<u32>> = Vec::new();
    for (position, slot) in (0..).zip(&plan.slots) {
        let Some(place) = seen.get_mut(slot.task.0 as usize) else { continue };
        if repeats.len() == *place {
            repeats.push(Vec::new());
        }
        repeats[*place].push(position);
        *place += 1;
    }
    repeats
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, Boundary, Epoch, Fault, Outcome, PhaseTimes, SlotId, Trajectory};
    use clawrl_testkit::PlanShape;

    use super::*;
    use crate::memory_sink::MemorySink;

    fn lease(slot: u32, number: u32) -> LeaseRecord {
        LeaseRecord { attempt: AttemptId { slot: SlotId(slot), number }, epoch: Epoch(1) }
    }

    fn record(slot: u32, closes_slot: bool) -> AttemptRecord {
        AttemptRecord {
            attempt: lease(slot, 0).attempt,
            epoch: Epoch(1),
            closes_slot,
            outcome: Outcome::Faulted(Fault::permanent(Boundary::Env, "lost", "it is gone")),
            times: PhaseTimes::default(),
            trajectory: Trajectory::default(),
        }
    }

    /// Two tasks of three repeats.
    fn batches(budget: CiBudget) -> (Batches, watch::Receiver<Demand>) {
        let plan = PlanShape { group_size: 3, ..PlanShape::flat(2, 2) }.build();
        Batches::new(&plan, Before::default(), Arc::new(MemorySink::default()), None, budget, None)
    }

    fn released(demand: &watch::Receiver<Demand>) -> (Vec<u32>, bool) {
        let demand = demand.borrow();
        match &demand.groups {
            GroupDemand::These(positions) => (positions.to_vec(), demand.closed),
            other @ GroupDemand::First(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn repeats_are_released_one_after_the_other() {
        let (_batches, demand) = batches(CiBudget::default());
        assert_eq!(released(&demand), (vec![0, 3, 1, 4, 2, 5], false));
    }

    /// Invariant I3.
    #[tokio::test]
    async fn a_budget_releases_no_more_than_it_has() {
        let budget = CiBudget { attempts: Some(3), ..CiBudget::default() };
        let (batches, demand) = batches(budget);
        assert_eq!(released(&demand), (vec![0, 3, 1], false));
        // The retry after a fault uses one attempt of the budget.
        for (slot, number) in [(0, 0), (0, 1)] {
            batches.leased(lease(slot, number)).await.unwrap();
            batches.resolved(record(slot, number > 0)).await.unwrap();
        }
        assert!(!released(&demand).1);
        batches.leased(lease(3, 0)).await.unwrap();
        assert!(released(&demand).1, "the third attempt is the last");
    }

    /// Invariant I5.
    #[tokio::test]
    async fn a_run_that_goes_on_has_used_what_it_used() {
        let plan = PlanShape { group_size: 3, ..PlanShape::flat(2, 2) }.build();
        let go_on = |closed: &[u32], most| {
            let before = Before { closed: closed.iter().copied().collect(), leased: 4, ..Before::default() };
            let budget = CiBudget { attempts: most, ..CiBudget::default() };
            Batches::new(&plan, before, Arc::new(MemorySink::default()), None, budget, None)
        };
        let (_used_up, demand) = go_on(&[0, 3, 1, 4], Some(4));
        assert!(released(&demand).1);
        let (batches, demand) = go_on(&[0, 3, 1, 4], Some(5));
        assert_eq!(released(&demand), (vec![0, 3, 1, 4, 2], false));
        batches.leased(lease(2, 0)).await.unwrap();
        batches.resolved(record(2, true)).await.unwrap();
        assert!(released(&demand).1, "the fifth attempt is the last");
        let (_whole, demand) = go_on(&[0, 1, 2, 3, 4, 5], Some(4));
        assert!(!released(&demand).1);
        let (_batches, demand) = go_on(&[5], None);
        assert_eq!(released(&demand), (vec![0, 3, 1, 4, 2, 5], false));
    }

    /// I2: the last batch releases all remaining slots.
    #[tokio::test]
    async fn a_run_that_is_filled_stays_open() {
        let (batches, demand) = batches(CiBudget::default());
        for slot in 0..6 {
            batches.leased(lease(slot, 0)).await.unwrap();
            batches.resolved(record(slot, true)).await.unwrap();
        }
        assert!(!released(&demand).1);
    }
}
