//! A display from its start to its end.

use std::time::{Duration, Instant};

use clawrl_core::ProviderUsage;
use clawrl_scheduler::Progress;
use indicatif::ProgressBar;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::bars;
use super::figures::Figuring;
use super::lines::Lines;
use crate::log::Log;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// Redrawn in place.
    Bars,
    /// A line now and then.
    Lines,
    /// Not at all.
    Quiet,
}

/// What is watched.
pub struct Watched {
    /// Counts of the execution.
    pub progress: Progress,
    /// What the providers of environments use now.
    pub usage: Box<dyn Fn() -> ProviderUsage + Send + Sync>,
    /// What people are told they are: `sandboxes`.
    pub environments: &'static str,
}

impl Display {
    /// What suits standard error.
    pub fn suited(log: &Log, quiet: bool) -> Self {
        match (quiet, log.is_terminal()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }

    /// Shows it until [`Shown::end`], or until that is dropped. Needs a runtime.
    pub fn start(self, watched: Watched, log: &Log) -> Shown {
        let log = log.clone();
        match self {
            Self::Quiet => Shown { log, bar: None, task: None },
            Self::Lines => {
                let task = tokio::spawn(print_lines(watched, log.clone()));
                Shown { log, bar: None, task: Some(task) }
            }
            Self::Bars => {
                let bar = bars::bar(watched.progress.snapshot().slots);
                log.show(Some(bar.clone()));
                let task = tokio::spawn(draw(watched, bar.clone()));
                Shown { log, bar: Some(bar), task: Some(task) }
            }
        }
    }
}

/// A display under way. Dropped, it ends and leaves the terminal as it was.
#[derive(Debug)]
pub struct Shown {
    log: Log,
    bar: Option<ProgressBar>,
    task: Option<JoinHandle<()>>,
}

impl Shown {
    /// Ends it and waits until it has drawn its last.
    pub async fn end(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // Cancelled is what it is meant to be.
            let _ = task.await;
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(bar) = &self.bar {
            self.log.show(None);
            bar.finish_and_clear();
        }
    }
}

async fn print_lines(watched: Watched, log: Log) {
    let mut figuring = Figuring::new(Instant::now(), watched.environments);
    let mut lines = Lines::default();
    let mut tick = ticks(Duration::from_millis(500));
    loop {
        tick.tick().await;
        let figures = figuring.at(Instant::now(), watched.progress.snapshot(), (watched.usage)());
        if let Some(line) = lines.due(&figures) {
            log.note(format_args!("{line}"));
        }
    }
}

async fn draw(watched: Watched, bar: ProgressBar) {
    let mut figuring = Figuring::new(Instant::now(), watched.environments);
    let mut tick = ticks(Duration::from_millis(200));
    loop {
        tick.tick().await;
        let figures = figuring.at(Instant::now(), watched.progress.snapshot(), (watched.usage)());
        bars::update(&bar, &figures);
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut tick = interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}
