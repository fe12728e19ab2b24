//! One operation at a time, for environments that do not guard themselves.

use std::future::Future;

use crate::{
    BoxFuture, CloseReport, Env, Fault, Grade, Observation, Progress, StepCtx, StepResult, ToolCall,
};

/// The operations of an environment; [`Guarded`] makes an [`Env`] of them. Their contracts are those of [`Env`].
pub trait Operations: Send {
    /// See [`Env::reset`].
    fn reset(&mut self, ctx: StepCtx) -> impl Future<Output = Result<Observation, Fault>> + Send;

    /// See [`Env::step`].
    fn step(
        &mut self,
        calls: &[ToolCall],
        ctx: StepCtx,
    ) -> impl Future<Output = Result<StepResult, Fault>> + Send;

    /// See [`Env::grade`].
    fn grade(&mut self, ctx: StepCtx) -> impl Future<Output = Result<Grade, Fault>> + Send;

    /// See [`Env::close`].
    fn close(&mut self) -> impl Future<Output = CloseReport> + Send;

    /// Whether the environment may be used after a step that ended in a fault.
    fn survives_faulted_step(&self) -> bool {
        true
    }
}

/// Refuses operations after one that was dropped half-way, and after the close; see [`Progress`].
#[derive(Debug)]
pub struct Guarded<O> {
    operations: O,
    progress: Progress,
}

impl<O: Operations> Guarded<O> {
    /// Guards these operations.
    pub fn new(operations: O) -> Self {
        Self { operations, progress: Progress::default() }
    }
}

impl<O: Operations> Env for Guarded<O> {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.operations.reset(ctx).await;
            self.progress.end();
            result
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.operations.step(calls, ctx).await;
            if result.is_ok() || self.operations.survives_faulted_step() {
                self.progress.end();
            }
            result
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.operations.grade(ctx).await;
            self.progress.end();
            result
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            self.progress.close();
            self.operations.close().await
        })
    }
}
