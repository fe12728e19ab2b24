//! Processor time of this process: all threads, user and system.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor and wall time of a piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

/// Runs `work` and measures it, including the work of other threads.
pub(crate) fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (cpu, wall) = (cpu_time(), Instant::now());
    let value = work();
    (value, Cost { cpu: cpu_time().saturating_sub(cpu), wall: wall.elapsed() })
}

/// Processor time so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
