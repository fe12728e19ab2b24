//! The episode driver: runs one attempt, from its lease to its closed environment.
//!
//! I1. `close` follows every granted lease, whatever happened before: fault, limit, cancellation, panic.
//! I2. `reset` once, `step` once per well-formed reply, `grade` at most once; never again after an operation
//! was dropped or panicked. I3. The attempt's clock starts when the lease is granted and ends with the last
//! step; grading and closing have their own limits. I4. No seed depends on the attempt number: a retry uses
//! the seeds of the first try, so deterministic environments and policies repeat the same episode.
//!
//! Limits. If the attempt limit fires during acting, it truncates the episode ([`StopReason::TimeLimit`]), which is then
//! graded. During setup, before the policy had a turn, it is a fault, because a score would be noise. Every
//! other limit is a fault. Environments enforce their deadlines themselves. An environment that has not returned
//! [`SchedulerTimeouts::operation_grace`] after its deadline is lost: the fault `deadline-ignored` at its boundary names
//! the limit, and the environment is only closed.
//!
//! Cancellation: the attempt's token. Waits for an environment or a policy end at once; an environment has
//! [`SchedulerTimeouts::operation_grace`] to return; closing is shielded.
//!
//! [`SchedulerTimeouts::operation_grace`]: crate::SchedulerTimeouts::operation_grace

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    Action, Boundary, CancelToken, Env, Fault, FinishReason, Grade, LeaseRequest, Limit, Message,
    Observation, PhaseTimes, PolicyRequest, SlotSpec, StepCtx, StepResult, StopReason, TaskSpec, TaskView,
    ToolSpec, Trajectory, Turn, TurnFlags, derive_seed, parse_calls,
};
use tokio::time::Instant;

use crate::conversation::{Conversation, opening_prompt, reply_message};
use crate::guard::{Ended, Guard, OnCancel, catch_panic, drop_caught};
use crate::heartbeat::{Beat, Heartbeat};
use crate::limits::{Bound, MALFORMED_IN_A_ROW};
use crate::progress::{Phase, Progress};
use crate::shared::Shared;
use crate::soundness::{sound_grade, sound_process_reward};
use crate::state::Grant;

/// Turns that room is made for at once. Growing by doubling would copy the turns of most episodes thrice.
const TURNS_AHEAD: u32 = 32;

/// End of an attempt, before the dispatcher accepts it.
#[derive(Debug)]
pub(crate) enum Ending {
    Finished { stop: StopReason, grade: Grade },
    Faulted(Fault),
    Cancelled,
}

/// Result of an attempt.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    pub(crate) times: PhaseTimes,
    pub(crate) trajectory: Trajectory,
    /// Leftovers that closing could not remove.
    pub(crate) leftovers: Vec<String>,
}

/// Why an operation gave no result.
#[derive(Debug)]
enum Halt {
    Fault(Fault),
    Cancelled,
    /// The attempt limit fired, and the environment is in order.
    AttemptLimit,
}

impl From<Halt> for Ending {
    /// Fault of an attempt limit in phases that it cannot truncate.
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fault(fault) => Self::Faulted(fault),
            Halt::Cancelled => Self::Cancelled,
            Halt::AttemptLimit => unreachable_limit(),
        }
    }
}

/// Grading and leasing are not under the attempt limit, so this is our own mistake.
fn unreachable_limit() -> Ending {
    let message = "the attempt limit fired outside acting and setup";
    Ending::Faulted(Fault::permanent(Boundary::Harness, "wrong-limit", message))
}

/// The driver's state. Owned by one executor task.
pub(crate) struct Attempt<'a> {
    shared: &'a Shared,
    grant: Grant,
    slot: &'a SlotSpec,
    task: &'a Arc<TaskSpec>,
    /// The part of the task that the policy sees.
    view: Arc<TaskView>,
    token: CancelToken,
    guard: Guard,
    heartbeat: HeartbeatHandle<'a>,
    times: PhaseTimes,
    trajectory: Trajectory,
    leftovers: Vec<String>,
}

/// Publishes the current phase, for people and for the reaper.
pub(crate) struct HeartbeatHandle<'a> {
    progress: &'a Progress,
    heartbeat: &'a Heartbeat,
    started: Instant,
    phase: Phase,
}

impl<'a> HeartbeatHandle<'a> {
    pub(crate) fn new(shared: &'a Shared, heartbeat: &'a Heartbeat) -> Self {
        shared.progress.enter(Phase::Journal);
        Self { progress: &shared.progress, heartbeat, started: shared.started, phase: Phase::Journal }
    }

    /// A phase begins that shows its next sign of life by `until`.
    pub(crate) fn enter(&mut self, phase: Phase, until: Instant) {
        self.heartbeat.renew(Beat { phase, until: until.saturating_duration_since(self.started) });
        self.progress.leave(self.phase);
        self.progress.enter(phase);
        self.phase = phase;
    }
}

impl Drop for HeartbeatHandle<'_> {
    fn drop(&mut self) {
        self.progress.leave(self.phase);
    }
}

/// An operation's bounds and its place in records.
struct Operation {
    phase: Phase,
    boundary: Boundary,
    /// The operation's own limit, which an environment names when it enforces the deadline it was given.
    own: Limit,
    bound: Bound,
    /// Whether dropping the operation is harmless, or it must be allowed to return.
    drop_is_harmless: bool,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        grant: Grant,
        token: CancelToken,
        heartbeat: HeartbeatHandle<'a>,
    ) -> Self {
        let slot = &shared.plan.slots[grant.attempt.slot.0 as usize];
        let task = shared.plan.task_of(slot);
        let guard = Guard::new(token.clone(), Instant::now() + task.timeouts.lease);
        let (times, trajectory) = Default::default();
        let view = Arc::new(task.view());
        Self {
            shared,
            grant,
            slot,
            task,
            view,
            token,
            guard,
            heartbeat,
            times,
            trajectory,
            leftovers: Vec::new(),
        }
    }

    /// Drives the attempt to its end. `dispatched` is when its slot got a permit.
    pub(crate) async fn drive(mut self, dispatched: Instant) -> (Driven, HeartbeatHandle<'a>) {
        let leased = self.lease().await;
        self.times.lease = dispatched.elapsed();
        let ending = match leased {
            Ok(mut env) => {
                // Nothing in here panics but by a mistake of ours, after which the environment is closed too.
                let episode = catch_panic(self.episode(&mut *env)).await;
                self.close(env).await;
                episode.unwrap_or_else(|text| Ending::Faulted(panicked(Boundary::Harness, "driver", &text)))
            }
            Err(halt) => halt.into(),
        };
        // Until the record is kept, the executor is not the one that could be late.
        self.heartbeat.enter(Phase::Record, Instant::now() + 2 * self.shared.timeouts.record);
        let Self { times, trajectory, leftovers, heartbeat, .. } = self;
        (Driven { ending, times, trajectory, leftovers }, heartbeat)
    }

    async fn lease(&mut self) -> Result<Box<dyn Env>, Halt> {
        let bound = Bound::new(Limit::Lease, Instant::now(), self.task.timeouts.lease);
        let request = LeaseRequest {
            task: Arc::clone(self.task),
            attempt: self.grant.attempt,
            epoch: self.grant.epoch,
            seed: self.slot.env_seed,
            deadline: bound.deadline.into_std(),
            cancel: self.token.clone(),
            blobs: Arc::clone(&self.shared.blobs),
        };
        let operation = Operation {
            phase: Phase::Lease,
            boundary: Boundary::Provider,
            own: Limit::Lease,
            bound,
            drop_is_harmless: true,
        };
        let provider = self.shared.provider_of(self.task);
        let (env, _) = self.operate(operation, async { provider.lease(request).await }).await?;
        Ok(env)
    }

    async fn episode(&mut self, env: &mut dyn Env) -> Ending {
        let attempt = Bound::new(Limit::Attempt, Instant::now(), self.task.timeouts.attempt);
        match self.reset(env, attempt).await {
            Ok(()) => {}
            Err(Halt::AttemptLimit) => {
                return Ending::Faulted(Fault::limit(Boundary::Env, Limit::Attempt, attempt.length));
            }
            Err(halt) => return halt.into(),
        }
        let mut seq = 0;
        let stop = match self.act(env, attempt, &mut seq).await {
            Ok(stop) => stop,
            Err(Halt::AttemptLimit) => StopReason::TimeLimit(Limit::Attempt),
            Err(halt) => return halt.into(),
        };
        match self.grade(env, seq + 1).await {
            Ok(grade) => Ending::Finished { stop, grade },
            Err(halt) => halt.into(),
        }
    }

    async fn reset(&mut self, env: &mut dyn Env, attempt: Bound) -> Result<(), Halt> {
        let bound = Bound::new(Limit::Setup, Instant::now(), self.task.timeouts.setup).within(attempt);
        let operation = env_operation(Phase::Setup, Boundary::Env, Limit::Setup, bound);
        let ctx = self.ctx(0, bound);
        let (observation, took) = self.operate(operation, async { env.reset(ctx).await }).await?;
        self.times.setup = took;
        self.trajectory.prompt = opening_prompt(&self.task.instruction, &observation);
        self.trajectory.reset = observation;
        self.trajectory.turns.reserve(self.task.max_turns.min(TURNS_AHEAD) as usize);
        Ok(())
    }

    /// Turns until something stops them.
    async fn act(&mut self, env: &mut dyn Env, attempt: Bound, seq: &mut u32) -> Result<StopReason, Halt> {
        let mut conversation = Conversation::new(&self.trajectory.prompt);
        let mut tools = self.trajectory.reset.tools.clone();
        let mut observation = self.trajectory.reset.clone();
        let mut malformed_in_a_row = 0;
        for turn in 0..self.task.max_turns {
            let (action, policy_time) =
                self.ask_policy(conversation.messages(), &observation, &tools, turn, attempt).await?;
            self.times.policy += policy_time;
            let reply = reply_message(&action);
            let parsed = parse_calls(&action.text, &action.tool_calls, self.task.action_format, &tools);
            let mut turn = Turn {
                reply,
                calls: Vec::new(),
                tokens: action.tokens,
                usage: action.usage,
                observation: Observation::default(),
                process_reward: None,
                flags: TurnFlags {
                    malformed: parsed.is_err(),
                    reply_truncated: action.finish == FinishReason::Length,
                },
                policy_time,
                step_time: Duration::ZERO,
            };
            let mut end = None;
            match parsed {
                Ok(calls) => {
                    malformed_in_a_row = 0;
                    turn.calls = calls;
                    *seq += 1;
                    end = self.step(env, &mut turn, *seq, attempt).await?;
                }
                Err(malformed) => {
                    malformed_in_a_row += 1;
                    turn.observation = Observation::from_text(malformed.reason);
                }
            }
            if !turn.observation.tools.is_empty() {
                tools.clone_from(&turn.observation.tools);
            }
            observation.clone_from(&turn.observation);
            self.trajectory.turns.push(turn);
            if let Some(stop) = end {
                return Ok(stop);
            }
            if malformed_in_a_row == MALFORMED_IN_A_ROW {
                return Ok(StopReason::MalformedActions);
            }
            conversation.advance(&self.trajectory.prompt, &self.trajectory.turns);
        }
        Ok(StopReason::MaxTurns)
    }

    async fn ask_policy(
        &mut self,
        conversation: &[Message],
        observation: &Observation,
        tools: &[ToolSpec],
        turn: u32,
        attempt: Bound,
    ) -> Result<(Action, Duration), Halt> {
        let bound = Bound::new(Limit::Policy, Instant::now(), self.task.timeouts.policy).within(attempt);
        let (token, view) = (self.token.clone(), Arc::clone(&self.view));
        let request = PolicyRequest {
            attempt: self.grant.attempt,
            task: &view,
            conversation,
            observation,
            tools,
            turn,
            seed: reply_seed(self.slot, turn),
            deadline: bound.deadline.into_std(),
            cancel: &token,
            blobs: &*self.shared.blobs,
        };
        let operation = Operation {
            phase: Phase::Policy,
            boundary: Boundary::Policy,
            own: Limit::Policy,
            bound,
            drop_is_harmless: true,
        };
        let policy = &self.shared.policy;
        self.operate(operation, async { policy.act(request).await }).await
    }

    /// Runs the calls of a turn. A turn whose step returned no result is recorded without one.
    async fn step(
        &mut self,
        env: &mut dyn Env,
        turn: &mut Turn,
        seq: u32,
        attempt: Bound,
    ) -> Result<Option<StopReason>, Halt> {
        self.shared.progress.stepped();
        let bound = Bound::new(Limit::Step, Instant::now(), self.task.timeouts.step).within(attempt);
        let operation = env_operation(Phase::Step, Boundary::Env, Limit::Step, bound);
        let ctx = self.ctx(seq, bound);
        let started = Instant::now();
        let calls = &turn.calls;
        match self.operate(operation, async { env.step(calls, ctx).await }).await {
            Ok((StepResult { observation, end, process_reward }, took)) => {
                turn.observation = observation;
                turn.step_time = took;
                self.times.step += took;
                match sound_process_reward(process_reward) {
                    Ok(reward) => {
                        turn.process_reward = reward;
                        Ok(end)
                    }
                    Err(fault) => {
                        self.trajectory.turns.push(turn.clone());
                        Err(Halt::Fault(fault))
                    }
                }
            }
            Err(halt) => {
                turn.step_time = started.elapsed();
                self.times.step += turn.step_time;
                turn.observation = Observation::from_text(match &halt {
                    Halt::Fault(fault) => format!("[no result: {fault}]"),
                    Halt::Cancelled => "[no result: cancelled]".to_owned(),
                    Halt::AttemptLimit => "[no result: the time of the attempt is used up]".to_owned(),
                });
                self.trajectory.turns.push(turn.clone());
                Err(halt)
            }
        }
    }

    async fn grade(&mut self, env: &mut dyn Env, seq: u32) -> Result<Grade, Halt> {
        let bound = Bound::new(Limit::Grade, Instant::now(), self.task.timeouts.grade);
        let operation = env_operation(Phase::Grade, Boundary::Grader, Limit::Grade, bound);
        let ctx = self.ctx(seq, bound);
        let (grade, took) = self.operate(operation, async { env.grade(ctx).await }).await?;
        self.times.grade = took;
        sound_grade(grade).map_err(Halt::Fault)
    }

    async fn close(&mut self, mut env: Box<dyn Env>) {
        let started = Instant::now();
        let until = started + self.task.timeouts.close;
        self.heartbeat.enter(Phase::Close, until);
        let attempt = self.grant.attempt;
        match self.guard.run(until, OnCancel::Shield, async { env.close().await }).await {
            Ended::Done(report) => {
                self.leftovers.extend(report.leftovers);
                self.trajectory.cast = report.cast;
            }
            Ended::Overdue | Ended::Cancelled => self.leftovers.push(format!(
                "attempt {attempt}: closing took longer than {:.1} s (`{}`); the environment was dropped",
                self.task.timeouts.close.as_secs_f64(),
                Limit::Close.key(),
            )),
            Ended::Panicked(text) => {
                self.leftovers.push(format!("attempt {attempt}: closing panicked: {text}"));
            }
        }
        // The synchronous backstop of whatever closing left.
        if let Err(text) = drop_caught(env) {
            self.leftovers.push(format!("attempt {attempt}: dropping the environment panicked: {text}"));
        }
        self.times.close = started.elapsed();
        self.shared.progress.took(Phase::Close, self.times.close);
    }

    fn ctx(&self, seq: u32, bound: Bound) -> StepCtx {
        StepCtx { seq, deadline: bound.deadline.into_std(), cancel: self.token.clone() }
    }

    /// Runs one operation, and says in our words why it gave no result.
    async fn operate<T>(
        &mut self,
        operation: Operation,
        future: impl Future<Output = Result<T, Fault>>,
    ) -> Result<(T, Duration), Halt> {
        let Operation { phase, boundary, own, bound, drop_is_harmless } = operation;
        if self.guard.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        let started = Instant::now();
        if bound.limit == Limit::Attempt && bound.deadline <= started {
            return Err(Halt::AttemptLimit);
        }
        let grace = self.shared.timeouts.operation_grace;
        let (until, on_cancel) = if drop_is_harmless {
            (bound.deadline, OnCancel::Drop)
        } else {
            (bound.deadline + grace, OnCancel::Wait(grace))
        };
        self.heartbeat.enter(phase, until);
        let ended = self.guard.run(until, on_cancel, future).await;
        let took = started.elapsed();
        self.shared.progress.took(phase, took);
        match ended {
            Ended::Done(Ok(value)) => Ok((value, took)),
            Ended::Done(Err(_)) if self.guard.is_cancelled() => Err(Halt::Cancelled),
            // The environment was given the attempt's deadline, which it reports as its own.
            Ended::Done(Err(fault)) if fault.limit == Some(own) && bound.limit == Limit::Attempt => {
                Err(Halt::AttemptLimit)
            }
            Ended::Done(Err(fault)) => Err(Halt::Fault(fault)),
            Ended::Cancelled => Err(Halt::Cancelled),
            Ended::Overdue if !drop_is_harmless => Err(Halt::Fault(deadline_ignored(boundary, bound, grace))),
            Ended::Overdue if bound.limit == Limit::Attempt => Err(Halt::AttemptLimit),
            Ended::Overdue => Err(Halt::Fault(Fault::limit(boundary, bound.limit, bound.length))),
            Ended::Panicked(text) => Err(Halt::Fault(panicked(boundary, phase.name(), &text))),
        }
    }
}

/// Seed of a reply: [`PolicyRequest::seed`] of the slot's attempts at this turn.
#[must_use]
pub fn reply_seed(slot: &SlotSpec, turn: u32) -> u64 {
    derive_seed(slot.policy_seed, "turn", &[u64::from(turn)])
}

/// An operation that enforces its deadline itself.
fn env_operation(phase: Phase, boundary: Boundary, own: Limit, bound: Bound) -> Operation {
    Operation { phase, boundary, own, bound, drop_is_harmless: false }
}

fn deadline_ignored(boundary: Boundary, bound: Bound, grace: Duration) -> Fault {
    let message = format!(
        "no return {:.1} s after the deadline set by `{}` ({:.1} s); the environment was dropped",
        grace.as_secs_f64(),
        bound.limit.key(),
        bound.length.as_secs_f64(),
    );
    Fault { limit: Some(bound.limit), ..Fault::transient(boundary, "deadline-ignored", message) }
}

/// A bug, but one that a fresh environment may not run into; `max_retries` bounds the attempts. Our own
/// panics are never retried.
fn panicked(boundary: Boundary, during: &str, text: &str) -> Fault {
    let message = format!("panic during {during}: {text}");
    match boundary {
        Boundary::Harness => Fault::permanent(boundary, "panic", message),
        _ => Fault::transient(boundary, "panic", message),
    }
}
