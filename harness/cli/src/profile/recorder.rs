//! The profile of this process, from its start to its files.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clawrl_core::RunId;
use clawrl_profile::{Sampler, SamplerError};

use super::durations::{Durations, Figures};
use super::file::{self, Flame, PhasesFile};
use super::phase::Phase;
use super::table;
use crate::host::facts;
use crate::log::Log;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

struct Recorder {
    began: Instant,
    /// Processor time of the process when it began.
    cpu: Duration,
    phases: [Mutex<Durations>; Phase::ALL.len()],
    /// Until it is stopped.
    sampler: Mutex<Option<Result<Sampler, SamplerError>>>,
}

/// Begins the profile, if one is wanted. Call when the spawner has been started, and before threads are: it starts one
/// itself.
pub fn start(wanted: bool) {
    if wanted {
        RECORDER.get_or_init(|| Recorder {
            began: Instant::now(),
            cpu: cpu_time(),
            phases: Default::default(),
            sampler: Mutex::new(Some(Sampler::start())),
        });
    }
}

/// Whether there is one.
pub(super) fn is_on() -> bool {
    RECORDER.get().is_some()
}

/// Something took so long.
pub fn took(phase: Phase, time: Duration) {
    if let Some(recorder) = RECORDER.get() {
        recorder.phases[phase as usize].lock().unwrap_or_else(PoisonError::into_inner).push(time);
    }
}

/// Writes the profile into a run's folder and tells of it. A profile that cannot be written is a warning: the run is over,
/// and what it left is whole.
pub fn finish(run: &RunId, run_folder: &Path, quiet: bool, log: &Log) {
    let Some(recorder) = RECORDER.get() else { return };
    let (wall, cpu) = (recorder.began.elapsed(), cpu_time().saturating_sub(recorder.cpu));
    let folder = run_folder.join(file::FOLDER);
    let sampler = recorder.sampler.lock().unwrap_or_else(PoisonError::into_inner).take();
    let sampled = sampler.map(|started| started.and_then(Sampler::stop));
    let flame = match &sampled {
        Some(Ok(sampled)) => {
            if sampled.lost > 0 {
                log.warn(format_args!("{} samples of the flame graph were lost", sampled.lost));
            }
            let title = format!(
                "run {run}: {:.1} s of processor time in {:.1} s, {} samples",
                cpu.as_secs_f64(),
                wall.as_secs_f64(),
                sampled.samples
            );
            file::write(&folder, file::FLAME, &sampled.flame_graph(&title), log);
            Flame::Sampled { samples: sampled.samples, lost: sampled.lost }
        }
        Some(Err(error)) => {
            log.warn(format_args!("there is no flame graph: {error}"));
            Flame::Missing { reason: error.to_string() }
        }
        // Another call has it.
        None => return,
    };
    let phases = recorder.figures();
    let content = PhasesFile::new(run, facts::PROGRAM, wall, cpu, flame, &phases);
    if file::write(&folder, file::PHASES, &content.text(), log) && !quiet {
        log.write(&format!("\n{}profile     {}\n", table::rendered(&phases), folder.display()));
    }
}

impl Recorder {
    fn figures(&self) -> Vec<(Phase, Figures)> {
        let of = |phase: Phase| {
            let durations = self.phases[phase as usize].lock().unwrap_or_else(PoisonError::into_inner);
            durations.figures().map(|figures| (phase, figures))
        };
        Phase::ALL.into_iter().filter_map(of).collect()
    }
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
