//! The lifetime of a progress display.

use std::time::{Duration, Instant};

use clawrl_core::BoxFuture;
use clawrl_runtime::RunningRun;
use indicatif::ProgressBar;
use tokio::time::{MissedTickBehavior, interval};

use super::bars;
use super::figures::Figuring;
use super::lines::Lines;
use crate::log::Log;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// Redrawn in place.
    Bars,
    /// Occasional lines.
    Lines,
    /// Not at all.
    Quiet,
}

impl Display {
    /// The mode for standard error.
    pub(crate) fn suited(log: &Log, quiet: bool) -> Self {
        match (quiet, log.is_terminal()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }

    /// Starts to show a run; the future shows it until `ended` resolves.
    pub(crate) fn show(
        self,
        run: RunningRun,
        log: &Log,
        ended: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, ()> {
        let log = log.clone();
        match self {
            Self::Quiet => ended,
            Self::Lines => Box::pin(until(ended, async move { print_lines(run, log).await })),
            Self::Bars => {
                let bar = bars::bar(run.counts.snapshot().slots);
                log.show(Some(bar.clone()));
                let shown = Shown { log, bar: bar.clone() };
                Box::pin(async move {
                    until(ended, draw(run, bar)).await;
                    drop(shown);
                })
            }
        }
    }
}

/// Runs a display until the run has ended.
async fn until(ended: BoxFuture<'static, ()>, display: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = ended => {}
        () = display => {}
    }
}

/// A bar on the terminal. Dropping it restores the terminal.
#[derive(Debug)]
struct Shown {
    log: Log,
    bar: ProgressBar,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.log.show(None);
        self.bar.finish_and_clear();
    }
}

async fn print_lines(run: RunningRun, log: Log) {
    let mut figuring = Figuring::new(Instant::now(), run.environments);
    let mut lines = Lines::default();
    let mut tick = ticks(Duration::from_millis(500));
    loop {
        tick.tick().await;
        let figures = figuring.at(Instant::now(), run.counts.snapshot(), (run.usage)());
        if let Some(line) = lines.due(&figures) {
            log.note(format_args!("{line}"));
        }
    }
}

async fn draw(run: RunningRun, bar: ProgressBar) {
    let mut figuring = Figuring::new(Instant::now(), run.environments);
    let mut tick = ticks(Duration::from_millis(200));
    loop {
        tick.tick().await;
        let figures = figuring.at(Instant::now(), run.counts.snapshot(), (run.usage)());
        bars::update(&bar, &figures);
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut tick = interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}
