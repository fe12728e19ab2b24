//! The checks, one function each. Each returns the first thing that is wrong.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use clawrl_core::{
    AttemptId, Boundary, CancelToken, Env, EnvProvider, Epoch, Fault, LeaseRequest, Limit, MemoryBlobs, Part,
    SlotId, StepCtx, StepResult, ToolCall, printable_line,
};
use tokio::time::{Instant, timeout};

use crate::Case;

/// Maximum characters of an observation in a message.
const SHOWN_CHARS: usize = 500;

/// Result of a check.
pub(crate) type Checked = Result<(), String>;

/// A provider under check.
pub(crate) struct Subject {
    pub(crate) case: Arc<Case>,
    pub(crate) provider: Arc<dyn EnvProvider>,
    /// Why nothing could be asked, where that was seen only then.
    pub(crate) not_asked: OnceLock<&'static str>,
}

impl Subject {
    pub(crate) fn new(case: &Arc<Case>) -> Self {
        Self { case: Arc::clone(case), provider: (case.make_provider)(), not_asked: OnceLock::new() }
    }

    fn request(&self, number: u32) -> LeaseRequest {
        LeaseRequest {
            task: Arc::clone(&self.case.task),
            attempt: AttemptId { slot: SlotId(number), number: 0 },
            epoch: Epoch(u64::from(number)),
            seed: 7,
            deadline: (Instant::now() + self.case.patience).into_std(),
            cancel: CancelToken::new(),
            blobs: Arc::new(MemoryBlobs::default()),
        }
    }

    pub(crate) fn ctx(&self, seq: u32) -> StepCtx {
        StepCtx {
            seq,
            deadline: (Instant::now() + self.case.patience).into_std(),
            cancel: CancelToken::new(),
        }
    }

    /// Lives and is not merely warm.
    fn in_use(&self) -> u32 {
        let usage = self.provider.usage();
        usage.live - usage.warm
    }

    pub(crate) async fn in_time<T>(
        &self,
        what: &str,
        operation: impl Future<Output = T>,
    ) -> Result<T, String> {
        let patience = self.case.patience;
        let late = |_| format!("{what} did not return within {patience:?}");
        timeout(patience, operation).await.map_err(late)
    }

    pub(crate) async fn lease(&self, number: u32) -> Result<Box<dyn Env>, String> {
        let leased = self.in_time("lease", self.provider.lease(self.request(number))).await?;
        leased.map_err(|fault| format!("lease: {fault}"))
    }

    /// Leases and resets.
    pub(crate) async fn ready(&self, number: u32) -> Result<Box<dyn Env>, String> {
        let mut env = self.lease(number).await?;
        let reset = self.in_time("reset", env.reset(self.ctx(0))).await?;
        reset.map_err(|fault| format!("reset: {fault}"))?;
        Ok(env)
    }

    pub(crate) async fn step(
        &self,
        env: &mut dyn Env,
        calls: &[ToolCall],
        seq: u32,
    ) -> Result<StepResult, String> {
        let stepped = self.in_time("step", env.step(calls, self.ctx(seq))).await?;
        stepped.map_err(|fault| format!("step: {fault}"))
    }

    pub(crate) async fn close(&self, env: &mut dyn Env) -> Checked {
        let report = self.in_time("close", env.close()).await?;
        ensure(report.leftovers.is_empty(), || format!("close left {}", report.leftovers.join("; ")))
    }

    fn long_calls(&self) -> Option<&[ToolCall]> {
        self.case.long_calls.as_deref()
    }

    /// Calls to interrupt, and the delay: quick calls are interrupted where they first wait.
    fn interrupted(&self) -> (&[ToolCall], Duration) {
        match self.long_calls() {
            Some(calls) => (calls, Duration::from_millis(50)),
            None => (&self.case.quick_calls, Duration::ZERO),
        }
    }

    /// The calls were over before they could be interrupted.
    fn was_over(&self) -> Checked {
        ensure(self.long_calls().is_none(), || "the long calls returned at once".to_owned())?;
        let _ = self.not_asked.set("its calls never wait, so a step cannot be interrupted");
        Ok(())
    }

    /// Nothing is in use. A provider may end things on another thread; it has the case's patience for that.
    async fn settles(&self, after: &str) -> Checked {
        let until = Instant::now() + self.case.patience;
        while self.in_use() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await; // timer: the trait has no event for "all gone"
        }
        ensure(self.in_use() == 0, || format!("{} still in use after {after}", self.in_use()))
    }
}

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// C1.
pub(crate) async fn order(subject: &Subject) -> Checked {
    let mut env = subject.lease(0).await?;
    ensure(subject.in_use() == 1, || format!("{} in use after one lease", subject.in_use()))?;
    let observation = subject.in_time("reset", env.reset(subject.ctx(0))).await?;
    let observation = observation.map_err(|fault| format!("reset: {fault}"))?;
    ensure(!observation.tools.is_empty(), || "reset offered no tools".to_owned())?;
    subject.step(&mut *env, &subject.case.quick_calls, 1).await?;
    let grade = subject.in_time("grade", env.grade(subject.ctx(2))).await?;
    let grade = grade.map_err(|fault| format!("grade: {fault}"))?;
    ensure((0.0..=1.0).contains(&grade.score), || format!("score {} is not in [0, 1]", grade.score))?;
    subject.close(&mut *env).await?;
    ensure(subject.in_use() == 0, || format!("{} in use after close", subject.in_use()))
}

/// C2.
pub(crate) async fn close_twice(subject: &Subject) -> Checked {
    let mut env = subject.ready(0).await?;
    subject.close(&mut *env).await?;
    subject.close(&mut *env).await?;
    drop(env);
    ensure(subject.in_use() == 0, || format!("{} in use after two closes", subject.in_use()))?;

    let mut unused = subject.lease(1).await?;
    subject.close(&mut *unused).await?;
    ensure(subject.in_use() == 0, || "closing before reset leaves environments in use".to_owned())
}

/// C3.
pub(crate) async fn dropped_step(subject: &Subject) -> Checked {
    let (calls, time) = subject.interrupted();
    let mut env = subject.ready(0).await?;
    if begin(env.step(calls, subject.ctx(1)), time).await.is_some() {
        subject.was_over()?;
        return subject.close(&mut *env).await;
    }
    let later = subject.in_time("step after a dropped one", env.step(calls, subject.ctx(2))).await?;
    let refused = matches!(&later, Err(fault) if fault.boundary == Boundary::Harness);
    ensure(refused, || {
        format!("expected a harness fault from a step after a dropped one, got {}", said(&later))
    })?;
    let graded = subject.in_time("grade after a dropped step", env.grade(subject.ctx(3))).await?;
    let refused = matches!(&graded, Err(fault) if fault.boundary == Boundary::Harness);
    ensure(refused, || {
        format!("expected a harness fault from grading after a dropped step, got {}", said(&graded))
    })?;
    subject.close(&mut *env).await?;
    ensure(subject.in_use() == 0, || format!("{} in use after close", subject.in_use()))
}

/// C4.
pub(crate) async fn drop_without_close(subject: &Subject) -> Checked {
    let fresh = subject.lease(0).await?;
    let ready = subject.ready(1).await?;
    let mut busy = subject.ready(2).await?;
    if let Some(calls) = subject.long_calls() {
        begin(busy.step(calls, subject.ctx(1)), Duration::from_millis(50)).await;
    }
    drop((fresh, ready, busy));
    subject.settles("dropping without close").await
}

/// C5.
pub(crate) async fn deadline(subject: &Subject) -> Checked {
    // Without a long step, one whose deadline has passed when it starts.
    let (calls, time) = match subject.long_calls() {
        Some(calls) => (calls, Duration::from_millis(300)),
        None => (subject.case.quick_calls.as_slice(), Duration::ZERO),
    };
    let mut env = subject.ready(0).await?;
    let ctx = StepCtx { deadline: (Instant::now() + time).into_std(), ..subject.ctx(1) };
    let stepped = subject.in_time("a step with a near deadline", env.step(calls, ctx)).await?;
    if let Err(fault) = &stepped {
        ensure(fault.limit == Some(Limit::Step), || {
            format!("the fault does not name the step limit: {fault}")
        })?;
        // It kept its deadline, so it is not broken: the limit may have been that of the attempt, which is graded.
        let graded = subject.in_time("grade after a kept deadline", env.grade(subject.ctx(2))).await?;
        graded.map_err(|fault| format!("grade after a kept deadline: {fault}"))?;
    }
    subject.close(&mut *env).await?;
    ensure(subject.in_use() == 0, || format!("{} in use after close", subject.in_use()))
}

/// C6.
pub(crate) async fn cancel(subject: &Subject) -> Checked {
    let (calls, time) = subject.interrupted();
    let mut env = subject.ready(0).await?;
    let token = CancelToken::new();
    let far = (Instant::now() + Duration::from_secs(3_600)).into_std();
    let ctx = StepCtx { deadline: far, cancel: token.clone(), ..subject.ctx(1) };
    {
        let mut step = pin!(env.step(calls, ctx));
        if begin(step.as_mut(), time).await.is_some() {
            subject.was_over()?;
        } else {
            token.cancel();
            // Its result does not matter, because the attempt is cancelled.
            let _ = subject.in_time("a cancelled step", step).await?;
        }
    }
    subject.close(&mut *env).await
}

/// C7.
pub(crate) async fn dropped_lease(subject: &Subject) -> Checked {
    // At the first poll, and at a few later points of its way.
    for (number, millis) in [(0, 0), (1, 1), (2, 3), (3, 10)] {
        let lease = subject.provider.lease(subject.request(number));
        drop(begin(lease, Duration::from_millis(millis)).await);
    }
    subject.settles("dropping lease futures").await?;
    let mut env = subject.ready(4).await.map_err(|wrong| format!("after dropped leases: {wrong}"))?;
    subject.close(&mut *env).await
}

/// C8.
pub(crate) async fn cancelled_lease(subject: &Subject) -> Checked {
    let request = subject.request(0);
    request.cancel.cancel();
    if let Ok(mut env) = subject.in_time("a cancelled lease", subject.provider.lease(request)).await? {
        subject.close(&mut *env).await?;
    }
    subject.settles("a cancelled lease").await
}

/// C9.
pub(crate) async fn shutdown(subject: &Subject) -> Checked {
    let mut env = subject.ready(0).await?;
    let fresh = subject.lease(1).await?;
    let report = subject.in_time("shutdown", subject.provider.shutdown()).await?;
    ensure(report.leftovers.is_empty(), || format!("shutdown left {}", report.leftovers.join("; ")))?;
    // Closing a closed environment is not an error.
    subject.in_time("close after shutdown", env.close()).await?;
    drop((env, fresh));
    subject.settles("shutdown").await
}

/// C10.
pub(crate) async fn deterministic(subject: &Subject) -> Checked {
    if !subject.case.deterministic {
        return Ok(());
    }
    let mut seen: Vec<Vec<Vec<Part>>> = Vec::new();
    for number in 0..2 {
        let mut env = subject.lease(number).await?;
        let reset = subject.in_time("reset", env.reset(subject.ctx(0))).await?;
        let mut parts = vec![reset.map_err(|fault| format!("reset: {fault}"))?.parts];
        for seq in 1..4 {
            let result = subject.step(&mut *env, &subject.case.quick_calls, seq).await?;
            parts.push(result.observation.parts);
            if result.end.is_some() {
                break;
            }
        }
        subject.close(&mut *env).await?;
        seen.push(parts);
    }
    ensure(seen[0] == seen[1], || format!("equal seeds and calls, but {}", difference(&seen[0], &seen[1])))
}

/// The first place where two episodes show something else; the reset counts as step 0.
pub(crate) fn difference(one: &[Vec<Part>], other: &[Vec<Part>]) -> String {
    let text = |episode: &[Vec<Part>], step: usize| match episode.get(step) {
        Some(parts) => printable_line(&serde_json::to_string(parts).unwrap_or_default(), SHOWN_CHARS),
        None => "nothing".to_owned(),
    };
    let steps = one.len().max(other.len());
    let differing = (0..steps).find(|&step| one.get(step) != other.get(step)).unwrap_or_default();
    format!("step {differing} showed {} first and {} then", text(one, differing), text(other, differing))
}

/// Result of a call, for a message.
fn said<T>(result: &Result<T, Fault>) -> String {
    match result {
        Ok(_) => "a result".to_owned(),
        Err(fault) => format!("the fault {fault}"),
    }
}

/// C11.
pub(crate) async fn neighbours(subject: &Subject) -> Checked {
    let mut envs = Vec::new();
    for number in 0..subject.case.at_once {
        envs.push(subject.ready(number).await?);
    }
    ensure(subject.in_use() == subject.case.at_once, || format!("{} in use", subject.in_use()))?;
    // Every other one goes, by turns by close and by drop; the rest works on.
    let mut stay = Vec::new();
    for (number, mut env) in envs.into_iter().enumerate() {
        match number % 4 {
            0 => subject.close(&mut *env).await?,
            2 => drop(env),
            _ => stay.push(env),
        }
    }
    for env in &mut stay {
        subject.step(&mut **env, &subject.case.quick_calls, 1).await?;
        subject.close(&mut **env).await?;
    }
    drop(stay);
    subject.settles("closing and dropping neighbours").await
}

/// C12.
pub(crate) async fn warm_up(subject: &Subject) -> Checked {
    let warmed = subject.in_time("warming up", subject.provider.warm_up(2)).await?;
    warmed.map_err(|fault| format!("warming up: {fault}"))?;
    ensure(subject.in_use() == 0, || format!("{} in use after warming up", subject.in_use()))?;
    let mut env = subject.ready(0).await?;
    subject.close(&mut *env).await
}

/// C13.
pub(crate) async fn ending(subject: &Subject) -> Checked {
    let Some(calls) = &subject.case.ending_calls else { return Ok(()) };
    let mut env = subject.ready(0).await?;
    let result = subject.step(&mut *env, calls, 1).await?;
    ensure(result.end.is_some(), || "the ending calls did not end the episode".to_owned())?;
    let graded = subject.in_time("grade", env.grade(subject.ctx(2))).await?;
    graded.map_err(|fault| format!("grade after the end: {fault}"))?;
    subject.close(&mut *env).await
}

/// Polls a future for a while; returns its output, if it is ready.
async fn begin<F: Future>(future: F, time: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    let first = poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await;
    match first {
        Some(value) => Some(value),
        None if time.is_zero() => None,
        None => timeout(time, future).await.ok(),
    }
}
