//! The dispatcher: the one task that owns a run's mutable state. It only decides; executors do.
//!
//! I1. It never waits for an executor, a provider or the sink while attempts are live, only for whatever
//! comes next: events, ends of tasks, interrupts, demand, due timers. So nothing that hangs can hang it. I2. Every
//! task it spawned has ended, or is counted as lost, when it returns. I3. Results travel as events; the end
//! of a task matters only if its attempt is then unresolved.
//!
//! Cancellation: dropping the run's future aborts all executors, which drops their environments.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, CancelReason, CancelToken, Epoch, Fault, Outcome, SinkError, SlotId};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::config::Interrupt;
use crate::demand::DemandInbox;
use crate::event::{Answer, Event};
use crate::executor::{execute, record_lost};
use crate::heartbeat::{Beat, Heartbeat};
use crate::progress::Phase;
use crate::reaper::Reaper;
use crate::report::{RunEnd, RunReport};
use crate::shared::Shared;
use crate::state::{Disposition, Grant, Mode, Resolution, RunState, StopCause};

/// Events waiting for the dispatcher. It handles one in well under a microsecond, so this is never reached
/// in practice; where it is, executors that have nothing left to do but report wait.
const EVENTS: usize = 1024;

/// Events handled before the next look at permits.
const BATCH: usize = 256;

/// The end of a run as the dispatcher knows it.
pub(crate) struct Dispatched {
    pub(crate) state: RunState,
    pub(crate) report: RunReport,
    pub(crate) harness_fault: Option<Fault>,
    pub(crate) sink_error: Option<SinkError>,
}

pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    state: RunState,
    report: RunReport,
    live: FxHashMap<SlotId, Live>,
    owners: FxHashMap<Id, (SlotId, Epoch)>,
    tasks: JoinSet<()>,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
    interrupts: watch::Receiver<Interrupt>,
    /// `None` once no interrupt can come.
    interruptible: bool,
    demand: DemandInbox,
    reaper: Reaper,
    cancelled: bool,
    harness_fault: Option<Fault>,
    sink_error: Option<SinkError>,
}

/// A live attempt.
struct Live {
    grant: Grant,
    token: CancelToken,
    heartbeat: Arc<Heartbeat>,
    /// The task that resolves or records it: its executor, or a stand-in that records its loss.
    task: AbortHandle,
    suspect: Option<Beat>,
}

impl Dispatcher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        state: RunState,
        interrupts: watch::Receiver<Interrupt>,
        demand: DemandInbox,
    ) -> Self {
        let (events, inbox) = mpsc::channel(EVENTS);
        let reaper = Reaper::new(shared.timeouts);
        Self {
            shared,
            state,
            report: RunReport::default(),
            live: FxHashMap::default(),
            owners: FxHashMap::default(),
            tasks: JoinSet::new(),
            events,
            inbox,
            interrupts,
            interruptible: true,
            demand,
            reaper,
            cancelled: false,
            harness_fault: None,
            sink_error: None,
        }
    }

    /// Runs until no attempt is live and none will be started.
    pub(crate) async fn run(mut self) -> Dispatched {
        let mut batch = Vec::with_capacity(BATCH);
        self.heed_interrupt();
        self.heed_demand();
        loop {
            self.state.wake(self.now());
            // If the demand is closed while a record is written, no attempt starts after it.
            if self.demand.has_news() {
                self.heed_demand();
            }
            self.launch_all();
            self.cancel_if_stopped();
            self.publish();
            if self.state.is_done() {
                break;
            }
            let timer = self.next_timer();
            tokio::select! {
                _ = self.inbox.recv_many(&mut batch, BATCH) => {
                    batch.drain(..).for_each(|event| self.handle(event));
                }
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    self.task_ended(ended);
                    while let Some(ended) = self.tasks.try_join_next_with_id() {
                        self.task_ended(ended);
                    }
                }
                changed = self.interrupts.changed(), if self.interruptible => {
                    self.interruptible = changed.is_ok();
                    self.heed_interrupt();
                }
                () = self.demand.changed(), if self.demand.is_open() => self.heed_demand(),
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => self.reap(),
            }
        }
        self.finish().await
    }

    fn now(&self) -> Duration {
        self.shared.started.elapsed()
    }

    fn next_timer(&self) -> Option<Instant> {
        let due = [self.state.next_wake(), self.reaper.next_scan()].into_iter().flatten().min()?;
        Some(self.shared.started + due)
    }

    fn heed_interrupt(&mut self) {
        match *self.interrupts.borrow_and_update() {
            Interrupt::None => {}
            Interrupt::Drain => self.state.drain(),
            Interrupt::CancelAll => self.state.stop(StopCause::Interrupted),
        }
    }

    fn heed_demand(&mut self) {
        let Some(demand) = self.demand.take() else { return };
        if demand.closed {
            self.state.sate();
        } else {
            self.state.release(&demand.groups);
        }
    }

    fn publish(&self) {
        let state = &self.state;
        self.shared.progress.publish(&state.tally(), state.live(), state.waiting(), state.withheld());
    }

    fn launch_all(&mut self) {
        while let Some(grant) = self.state.grant() {
            let token = CancelToken::new();
            let until = self.now() + self.shared.timeouts.record;
            let sign = Beat { phase: Phase::Journal, until };
            let heartbeat = Arc::new(Heartbeat::new(sign));
            self.reaper.watch(sign);
            let executor = execute(
                Arc::clone(&self.shared),
                grant,
                token.clone(),
                Arc::clone(&heartbeat),
                self.events.clone(),
            );
            let task = self.tasks.spawn(executor);
            self.own(task.id(), grant);
            self.live.insert(grant.attempt.slot, Live { grant, token, heartbeat, task, suspect: None });
        }
    }

    fn own(&mut self, task: Id, grant: Grant) {
        self.owners.insert(task, (grant.attempt.slot, grant.epoch));
    }

    fn cancel_if_stopped(&mut self) {
        if self.state.cancel_reason().is_some() && !self.cancelled {
            self.cancelled = true;
            self.live.values().for_each(|live| live.token.cancel());
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Resolved { slot, epoch, resolution, fault, leftovers, answer } => {
                self.report.note_leftovers(leftovers);
                let verdict = self.resolve(slot, epoch, resolution, fault);
                let answered = answer.send(match verdict {
                    Disposition::Accepted { closes_slot } => {
                        Answer::Keep { closes_slot, cancel_reason: self.cancel_reason() }
                    }
                    Disposition::Discarded => Answer::Discard,
                });
                if answered.is_err() {
                    tracing::debug!(%slot, "the executor is gone; the end of its task tells the rest");
                }
            }
            Event::Recorded { slot, epoch } => {
                let now = self.now();
                self.state.recorded(slot, epoch, now);
                self.bury(slot, epoch);
            }
            Event::NotRecorded { slot, epoch, error } => {
                tracing::error!(%slot, %error, "not recorded");
                self.sink_error.get_or_insert(error);
                self.state.abandoned(slot, epoch, StopCause::SinkFailed);
                self.bury(slot, epoch);
            }
        }
    }

    fn resolve(
        &mut self,
        slot: SlotId,
        epoch: Epoch,
        resolution: Resolution,
        fault: Option<Fault>,
    ) -> Disposition {
        let verdict = self.state.resolve(slot, epoch, resolution);
        if let (Disposition::Accepted { .. }, Some(fault)) = (verdict, fault) {
            tracing::debug!(%slot, %fault, "attempt faulted");
            self.report.count_fault(&fault);
            if fault.boundary == Boundary::Harness {
                self.harness_fault.get_or_insert(fault);
            }
        }
        verdict
    }

    fn cancel_reason(&self) -> CancelReason {
        self.state.cancel_reason().unwrap_or(CancelReason::RunEnded)
    }

    fn bury(&mut self, slot: SlotId, epoch: Epoch) {
        if self.live.get(&slot).is_some_and(|live| live.grant.epoch == epoch) {
            self.live.remove(&slot);
        }
    }

    /// A task that ended well said all it had to say by events.
    fn task_ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some((slot, epoch)) = self.owners.remove(&id) else { return };
        let Err(error) = ended else { return };
        let current = self.live.get(&slot).filter(|live| live.grant.epoch == epoch && live.task.id() == id);
        if let Some(live) = current {
            let text = format!("the executor of attempt {} is lost: {error}", live.grant.attempt);
            let fault = Fault::permanent(Boundary::Harness, "executor-lost", text);
            self.lose(slot, fault);
        }
    }

    fn reap(&mut self) {
        let now = self.now();
        if self.reaper.next_scan().is_none_or(|next| next > now) {
            return;
        }
        let live = self.live.iter_mut().map(|(slot, live)| (*slot, live.heartbeat.read(), &mut live.suspect));
        for slot in self.reaper.scan(now, live) {
            let Some(live) = self.live.get(&slot) else { continue };
            self.report.reaped += 1;
            // An executor that blocks its thread may never end; one that only waits ends here, and its
            // environment is dropped with it.
            live.token.cancel();
            live.task.abort();
            let fault = reaped(live);
            self.lose(slot, fault);
        }
    }

    /// Resolves an attempt without its executor. The epoch fences whatever that may still send.
    fn lose(&mut self, slot: SlotId, fault: Fault) {
        let Some(live) = self.live.get(&slot) else { return };
        let (grant, phase) = (live.grant, live.heartbeat.read().phase);
        if !self.state.is_driving(slot, grant.epoch) || phase == Phase::Journal {
            // Whether the lease or record was written is unknown, and must not matter.
            self.harness_fault.get_or_insert(fault);
            self.state.abandoned(slot, grant.epoch, StopCause::HarnessFault);
            self.bury(slot, grant.epoch);
            return;
        }
        let resolution = Resolution::Faulted { boundary: fault.boundary, retry: fault.retry };
        let verdict = self.resolve(slot, grant.epoch, resolution, Some(fault.clone()));
        if let Disposition::Accepted { closes_slot } = verdict {
            let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
            let task =
                self.tasks.spawn(record_lost(shared, grant, closes_slot, Outcome::Faulted(fault), events));
            self.own(task.id(), grant);
            let until = self.now() + self.shared.timeouts.record;
            let sign = Beat { phase: Phase::Record, until };
            self.reaper.watch(sign);
            // Not the old one: a late executor would still write into that.
            let stand_in = Live {
                grant,
                token: CancelToken::new(),
                heartbeat: Arc::new(Heartbeat::new(sign)),
                task,
                suspect: None,
            };
            self.live.insert(slot, stand_in);
        }
    }

    async fn finish(mut self) -> Dispatched {
        // Executors that end by themselves, and results that arrive after their attempt was resolved without
        // them: those are answered, so that they do not delay the end until the timeout.
        let timeouts = sleep_until(Instant::now() + self.shared.timeouts.tail);
        tokio::pin!(timeouts);
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(ended),
                Some(event) = self.inbox.recv() => self.handle(event),
                () = &mut timeouts => break,
            }
        }
        self.report.lost_executors = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        self.report.end = match self.state.mode() {
            Mode::Stopping(StopCause::SinkFailed) => RunEnd::SinkFailed,
            Mode::Stopping(StopCause::HarnessFault) => RunEnd::HarnessFault,
            Mode::Stopping(StopCause::TooManyFaults) => RunEnd::TooManyFaults,
            Mode::Stopping(StopCause::Interrupted) => RunEnd::Cancelled,
            Mode::Draining => RunEnd::Drained,
            Mode::DemandClosed => RunEnd::DemandClosed,
            Mode::Running => RunEnd::Completed,
        };
        Dispatched {
            state: self.state,
            report: self.report,
            harness_fault: self.harness_fault,
            sink_error: self.sink_error,
        }
    }
}

/// The fault of an attempt without a heartbeat, at the boundary of its current phase.
fn reaped(live: &Live) -> Fault {
    let phase = live.heartbeat.read().phase;
    let message = format!(
        "no heartbeat during {} of attempt {}: its thread is blocked; the attempt was taken from its \
         executor and its environment dropped",
        phase.name(),
        live.grant.attempt,
    );
    let boundary = match phase {
        Phase::Lease => Boundary::Provider,
        Phase::Setup | Phase::Step | Phase::Close => Boundary::Env,
        Phase::Policy => Boundary::Policy,
        Phase::Grade => Boundary::Grader,
        Phase::Journal | Phase::Record => Boundary::Harness,
    };
    match boundary {
        Boundary::Harness => Fault::permanent(boundary, "reaped", message),
        _ => Fault::transient(boundary, "reaped", message),
    }
}
