//! Progress of runs and trainings, reported to the program that embeds the runtime.
//!
//! All methods have a default that discards the report, so that an embedder implements only what it shows.

use std::fmt::Arguments;

use clawrl_config::Problem;
use clawrl_core::{BoxFuture, ProviderUsage, RunId};
use clawrl_scheduler::Progress as RunCounts;

use crate::training::UpdateProgress;

/// Receives progress, notes and warnings. Called from any thread.
pub trait Progress: Send + Sync {
    /// The next step of a task: one line that a quiet program drops.
    fn step(&self, _line: Arguments<'_>) {}

    /// A fact that the user asked for or needs, such as the effect of a signal: one line.
    fn note(&self, _line: Arguments<'_>) {}

    /// A condition that the user should fix or know about: one line.
    fn warn(&self, _line: Arguments<'_>) {}

    /// A warning about a place in a file.
    fn file_warning(&self, _problem: &Problem) {}

    /// A run that starts now. The future is polled until `ended` resolves, and then awaited, so that it can draw a last time.
    ///
    /// Called inside the runtime.
    fn show_run(&self, _run: RunningRun, ended: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        ended
    }

    /// A training that has made its folder, or opened the one that it resumes.
    fn training_started(&self, _run: &RunId) {}

    /// One update of a training.
    fn update(&self, _update: &UpdateProgress) {}
}

/// Discards everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// The counters of a run while it executes.
pub struct RunningRun {
    /// Attempts, steps and latencies.
    pub counts: RunCounts,
    /// Environments in use and ready.
    pub usage: Box<dyn Fn() -> ProviderUsage + Send + Sync>,
    /// `sandboxes` if all environments are sandboxes, otherwise `environments`.
    pub environments: &'static str,
}
