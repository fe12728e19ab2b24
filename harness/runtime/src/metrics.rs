//! Writes a run's metrics into its record, once a second and at the end.
//!
//! A lost row is not a fault: metrics are best effort.

use std::fs;
use std::time::{Duration, Instant};

use clawrl_core::ProviderUsage;
use clawrl_record::{Metric, MetricRow, RunSink};
use clawrl_scheduler::{Phase, Progress, ProgressSnapshot};
use tokio::time::{MissedTickBehavior, interval};

use super::machine::Providers;
use crate::host::capacity;

const PERIOD: Duration = Duration::from_secs(1);

/// Writes rows until `ended` resolves, then the last rows. `isolated`: whether there may be sandboxes to count.
pub(super) async fn keep(
    sink: RunSink,
    progress: Progress,
    providers: Providers,
    isolated: bool,
    ended: impl Future,
) {
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Sample> = None;
    let mut ended = std::pin::pin!(ended);
    let mut is_last = false;
    while !is_last {
        tokio::select! {
            _ = tick.tick() => {}
            _ = &mut ended => is_last = true,
        }
        let sample = Sample::take(progress.snapshot());
        let usage = isolated.then(|| usage(&providers));
        let rows = sample.rows(before.as_ref(), usage);
        before = Some(sample);
        if let Err(error) = sink.metrics(rows).await {
            tracing::debug!(%error, "metrics are no longer kept");
            return;
        }
    }
}

/// The sum over all providers.
pub(crate) fn usage(providers: &Providers) -> ProviderUsage {
    providers.values().map(|provider| provider.usage()).fold(ProviderUsage::default(), |sum, one| {
        ProviderUsage { live: sum.live + one.live, warm: sum.warm + one.warm, peak: sum.peak + one.peak }
    })
}

struct Sample {
    at: Instant,
    t_ms: u64,
    cpu: Duration,
    progress: ProgressSnapshot,
}

impl Sample {
    fn take(progress: ProgressSnapshot) -> Self {
        let t_ms = jiff::Timestamp::now().as_millisecond();
        Self { at: Instant::now(), t_ms: u64::try_from(t_ms).unwrap_or(0), cpu: cpu_time(), progress }
    }

    fn rows(&self, before: Option<&Self>, usage: Option<ProviderUsage>) -> Vec<MetricRow> {
        let now = &self.progress;
        let resolved =
            |progress: &ProgressSnapshot| f64::from(progress.attempts.saturating_sub(progress.running));
        let per_second = |count: &dyn Fn(&Self) -> f64| {
            before.map_or(0.0, |before| {
                let seconds = (self.at - before.at).as_secs_f64().max(1e-3);
                ((count(self) - count(before)) / seconds).max(0.0)
            })
        };
        let figures = [
            (Metric::SlotsOpenCount, f64::from(now.slots.saturating_sub(now.closed))),
            (Metric::SlotsClosedCount, now.closed.into()),
            (Metric::SlotsFaultedCount, now.faulted.into()),
            (Metric::SlotsPassedCount, now.passed.into()),
            (Metric::AttemptsLiveCount, now.running.into()),
            (Metric::AttemptsResolvedPerSecond, per_second(&|sample| resolved(&sample.progress))),
            (Metric::AttemptsRetriedCount, now.retries.into()),
            (Metric::TurnsTakenPerSecond, per_second(&|sample| sample.progress.steps as f64)),
            (Metric::QueueWaitingCount, now.phases.get(Phase::Lease).into()),
            (Metric::HarnessMemoryMib, resident_mib()),
            (Metric::HarnessCpuPercent, 100.0 * per_second(&|sample| sample.cpu.as_secs_f64())),
            (Metric::HostMemoryAvailableMib, capacity::memory_available_mib() as f64),
        ];
        let sandboxes = usage.map(|usage| {
            [
                (Metric::SandboxesLiveCount, f64::from(usage.live)),
                (Metric::SandboxesWarmCount, f64::from(usage.warm)),
                (Metric::SandboxesPeakCount, f64::from(usage.peak)),
            ]
        });
        // The last rows may follow right after others; a rate over such a short time is meaningless.
        let is_soon = before.is_some_and(|before| self.at - before.at < PERIOD / 2);
        let is_rate = |name: Metric| {
            use Metric::{AttemptsResolvedPerSecond, HarnessCpuPercent, TurnsTakenPerSecond};
            matches!(name, AttemptsResolvedPerSecond | TurnsTakenPerSecond | HarnessCpuPercent)
        };
        let figures = figures.into_iter().filter(|(name, _)| !(is_soon && is_rate(*name)));
        let all = figures.chain(sandboxes.into_iter().flatten());
        all.map(|(name, value)| MetricRow::new(self.t_ms, name, value)).collect()
    }
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process.
fn resident_mib() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * rustix::param::page_size() as f64 / f64::from(1u32 << 20)
}
