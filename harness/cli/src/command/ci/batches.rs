//! From the scheduler to the record, with looks in between: repeats are released batch by batch.
//!
//! I1. A record goes on only after it is kept, and a look sees nothing but the record. I2. The next batch is released when every slot of
//! those before is closed and the look does not end the run; what is released once stays released. I3. A budget releases no more than it
//! has attempts for, and ends the run when it is used up: what runs by then is finished. I4. A look that cannot be taken is told and ends
//! nothing: the run goes on to its end, where it is judged by what looks would have left.
//!
//! Cancellation: dropping a call leaves what it had kept; the demand stays as it was, and closes when this is dropped.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clawrl_config::CiBudget;
use clawrl_core::{
    AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, RunPlan, SinkError, UsageTotal,
};
use clawrl_record::Run;
use clawrl_regression::{Comparison, Look, LookSchedule};
use clawrl_scheduler::{Demand, Wanted};
use tokio::sync::watch;

use crate::log::Log;

/// What a run is looked at by.
pub(super) struct Watch {
    pub(super) comparison: Comparison,
    pub(super) schedule: LookSchedule,
    /// The run's folder.
    pub(super) dir: PathBuf,
}

/// Keeps records in another sink, and says how much of the run is wanted.
pub(super) struct Batches {
    kept: Arc<dyn EpisodeSink>,
    demand: watch::Sender<Demand>,
    watch: Option<Arc<Watch>>,
    budget: CiBudget,
    started: Instant,
    /// Slots in the order of their release, by their positions.
    order: Arc<[u32]>,
    /// How many of them are released by the end of each batch.
    ends: Vec<usize>,
    progress: Mutex<Progress>,
    /// Where looks are told, if anywhere.
    log: Option<Log>,
}

/// How far a run is.
#[derive(Debug, Default)]
struct Progress {
    /// The batch under way.
    batch: usize,
    closed: usize,
    leased: u32,
    nano_usd: u64,
}

/// What follows from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    /// No more is wanted.
    Close,
    /// This batch is whole.
    Next(usize),
}

impl Batches {
    /// For a run of this plan, whose groups are slots; the first batch is released.
    pub(super) fn new(
        plan: &RunPlan,
        kept: Arc<dyn EpisodeSink>,
        watch: Option<Watch>,
        budget: CiBudget,
        log: Option<Log>,
    ) -> (Self, watch::Receiver<Demand>) {
        let by_repeat = by_repeat(plan);
        let repeats = by_repeat.len() as u32;
        let looks = watch.as_ref().map_or(vec![repeats], |watch| watch.schedule.repeats().to_vec());
        let released = |seen: &u32| by_repeat.iter().take(*seen as usize).map(Vec::len).sum::<usize>();
        let most = budget.attempts.map_or(usize::MAX, |most| most as usize);
        let ends: Vec<usize> = looks.iter().map(|seen| released(seen).min(most)).collect();
        let order: Arc<[u32]> = by_repeat.into_iter().flatten().collect();
        let first = Demand { groups: wanted(&order, ends.first().copied().unwrap_or(0)), closed: false };
        let (demand, receiver) = watch::channel(first);
        let batches = Self {
            kept,
            demand,
            watch: watch.map(Arc::new),
            budget,
            started: Instant::now(),
            order,
            ends,
            progress: Mutex::default(),
            log,
        };
        (batches, receiver)
    }

    fn note_lease(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.leased = progress.leased.saturating_add(1);
        if self.budget.attempts.is_some_and(|most| progress.leased >= most) {
            self.close();
        }
    }

    fn note(&self, closes_slot: bool, nano_usd: u64) -> Step {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.nano_usd = progress.nano_usd.saturating_add(nano_usd);
        progress.closed += usize::from(closes_slot);
        if progress.closed == self.order.len() {
            return Step::Nothing;
        }
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        let is_used_up = self.budget.minutes.is_some_and(|most| minutes >= most)
            || self.budget.cost_usd.is_some_and(|most| progress.nano_usd as f64 / 1e9 >= most);
        let batch = progress.batch;
        match self.ends.get(batch) {
            _ if is_used_up => Step::Close,
            Some(end) if closes_slot && progress.closed == *end => {
                progress.batch += 1;
                Step::Next(batch)
            }
            _ => Step::Nothing,
        }
    }

    /// A batch is whole: looks, and releases the next one.
    async fn go_on(&self, batch: usize) {
        let ends = match &self.watch {
            Some(watch) => self.look(Arc::clone(watch), batch).await,
            None => false,
        };
        match self.ends.get(batch + 1) {
            Some(end) if !ends && *end > self.ends[batch] => {
                let groups = wanted(&self.order, *end);
                self.demand.send_modify(|demand| demand.groups = groups);
            }
            _ => self.close(),
        }
    }

    async fn look(&self, watch: Arc<Watch>, at: usize) -> bool {
        let taken = tokio::task::spawn_blocking(move || {
            let run = Run::open_read(&watch.dir).map_err(|error| error.to_string())?;
            watch.comparison.look(&run, &watch.schedule, at).map_err(|error| error.to_string())
        });
        let taken = taken.await.unwrap_or_else(|error| Err(error.to_string()));
        match (taken, &self.log) {
            (Ok(Look { taken, ends }), Some(log)) => {
                let z = taken.z.map_or_else(String::new, |z| format!(", z {z:.2}"));
                log.note(format_args!("look after {} repeats{z}: {}", taken.repeats, taken.said));
                ends
            }
            (Ok(look), None) => look.ends,
            (Err(why), _) => {
                tracing::warn!(why, "a look could not be taken");
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
            let (closes_slot, cost) = (record.closes_slot, nano_usd(&record));
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

fn wanted(order: &[u32], count: usize) -> Wanted {
    Wanted::These(order.iter().copied().take(count).collect())
}

/// Positions of slots by their place among the slots of their task.
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

/// What an attempt cost, judges included.
fn nano_usd(record: &AttemptRecord) -> u64 {
    let replies = UsageTotal::of(record.trajectory.turns.iter().filter_map(|turn| turn.usage.as_ref()));
    let judge = record.outcome.grade().and_then(|grade| grade.judge_usage);
    [replies, judge]
        .into_iter()
        .flatten()
        .filter_map(|usage| usage.cost_nano_usd)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, Boundary, Epoch, Fault, Outcome, PhaseTimes, SlotId, Trajectory};
    use clawrl_testkit::PlanShape;

    use super::*;
    use crate::wiring::MemorySink;

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
        Batches::new(&plan, Arc::new(MemorySink::default()), None, budget, None)
    }

    fn released(demand: &watch::Receiver<Demand>) -> (Vec<u32>, bool) {
        let demand = demand.borrow();
        match &demand.groups {
            Wanted::These(positions) => (positions.to_vec(), demand.closed),
            other @ Wanted::First(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn repeats_are_released_one_after_the_other() {
        let (_batches, demand) = batches(CiBudget::default());
        assert_eq!(released(&demand), (vec![0, 3, 1, 4, 2, 5], false));
    }

    /// I3.
    #[tokio::test]
    async fn a_budget_releases_no_more_than_it_has() {
        let budget = CiBudget { attempts: Some(3), ..CiBudget::default() };
        let (batches, demand) = batches(budget);
        assert_eq!(released(&demand), (vec![0, 3, 1], false));
        // The retry of a fault takes one of them.
        for (slot, number) in [(0, 0), (0, 1)] {
            batches.leased(lease(slot, number)).await.unwrap();
            batches.resolved(record(slot, number > 0)).await.unwrap();
        }
        assert!(!released(&demand).1);
        batches.leased(lease(3, 0)).await.unwrap();
        assert!(released(&demand).1, "the third attempt is the last");
    }

    /// I2: what is released at the end of a run needs no more.
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
