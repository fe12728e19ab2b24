//! `profile/` in a run's folder.
//!
//! I1. A file is there whole, or as it was before. I2. Phases come in the order of [`super::Phase::ALL`], buckets in
//! that of their durations; empty ones are left out.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use clawrl_core::RunId;
use clawrl_report::upper_us;
use serde::Serialize;

use super::durations::Figures;
use super::phase::Phase;
use crate::log::Log;

pub(super) const FOLDER: &str = "profile";
pub(super) const PHASES: &str = "phases.json";
pub(super) const FLAME: &str = "flame.svg";

/// Version of `phases.json`.
const FORMAT: u32 = 1;

/// The content of `phases.json`.
#[derive(Debug, Serialize)]
pub(super) struct PhasesFile<'a> {
    format: u32,
    run: &'a RunId,
    program: &'a str,
    wall_seconds: f64,
    cpu_seconds: f64,
    flame: Flame,
    phases: Vec<PhaseRow>,
}

/// What came of the flame graph.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Flame {
    Sampled { samples: u64, lost: u64 },
    Missing { reason: String },
}

#[derive(Debug, Serialize)]
struct PhaseRow {
    phase: &'static str,
    per: &'static str,
    count: u64,
    total_seconds: f64,
    mean_us: u64,
    /// Durations that percentiles and buckets are of.
    sampled: u64,
    p50_us: u64,
    p90_us: u64,
    p95_us: u64,
    p99_us: u64,
    max_us: u64,
    buckets: Vec<Bucket>,
}

/// Durations from the bound of the bucket before up to this one's.
#[derive(Debug, Serialize)]
struct Bucket {
    /// `None` of the last, which has no bound.
    below_us: Option<f64>,
    count: u64,
}

impl<'a> PhasesFile<'a> {
    pub(super) fn new(
        run: &'a RunId,
        program: &'a str,
        wall: Duration,
        cpu: Duration,
        flame: Flame,
        phases: &[(Phase, Figures)],
    ) -> Self {
        Self {
            format: FORMAT,
            run,
            program,
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds: cpu.as_secs_f64(),
            flame,
            phases: phases.iter().map(|(phase, figures)| row(*phase, figures)).collect(),
        }
    }

    /// As it is written. A number that JSON has no word for cannot be in it.
    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

fn row(phase: Phase, figures: &Figures) -> PhaseRow {
    let kept = &figures.kept;
    let last = kept.buckets.len() - 1;
    let bucket = |(at, &count): (usize, &u64)| Bucket {
        below_us: (at < last).then(|| (10.0 * upper_us(at)).round() / 10.0),
        count,
    };
    PhaseRow {
        phase: phase.name(),
        per: phase.per(),
        count: figures.count,
        total_seconds: figures.sum_us as f64 / 1e6,
        mean_us: figures.mean_us(),
        sampled: kept.count,
        p50_us: kept.p50_us,
        p90_us: kept.p90_us,
        p95_us: kept.p95_us,
        p99_us: kept.p99_us,
        max_us: figures.max_us,
        buckets: kept.buckets.iter().enumerate().filter(|(_, count)| **count > 0).map(bucket).collect(),
    }
}

/// Writes a file of the folder; false, with a warning, if that failed.
pub(super) fn write(folder: &Path, name: &str, text: &str, log: &Log) -> bool {
    let path = folder.join(name);
    replaced(folder, &path, text)
        .inspect_err(|error| log.warn(format_args!("cannot write {}: {error}", path.display())))
        .is_ok()
}

fn replaced(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
