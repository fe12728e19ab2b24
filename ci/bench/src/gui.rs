//! A step and a reset of a GUI environment, against bare WebDriver on the same page and, where it is there, BrowserGym; and
//! how many environments this machine carries at once.
//!
//! - `ours`: slots that make one attempt after another, as a run does: a lease, a reset, steps, the grade, the close. A step is
//!   `click 1`: the click, the page at rest, and all of it as text; a checkbox of the family `click-checkboxes` of
//!   MiniWoB++, which can be clicked for ever. A reset is timed from the lease on, and gets a context of its own in a browser
//!   that has had an attempt before.
//! - `bare`: a driver and a browser for each slot without any sandbox, proxy or site of ours, told to click the same checkbox,
//!   to wait until nothing is loaded and a frame passed without a change, and to read the page's text: three classic
//!   commands. A reset is the page loaded and its episode started in a browser that is there.
//! - BrowserGym: `peers/browsergym_step.py`, if `--browsergym` names a Python that has `browsergym-miniwob`.
//!
//! The comparison leans to the bare side: it has no sandbox, one tab for ever, no accessibility tree to read, and nothing to
//! grade.
//!
//! A round begins with new browsers and one attempt of each slot that does not count. A fault is counted, not the end: what its
//! attempt had left to do is done in a new lease. Steps a second are those of all slots, over the time from the first
//! attempt that counts to the end of the last, resets and grades included.
//!
//! Memory is the drop of MemAvailable, of the whole machine, from the most that was available before any round so far to the
//! least while a round goes on: only worth reading from a machine that does nothing else. "Nothing left" and the number of
//! browsers are looked up outside the harness, as for `live-shells`.

mod bare;
mod browsergym;
mod ours;
mod tally;
mod watch;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clawrl_gui::{BrowserPrograms, find_programs};
use serde::Serialize;

use crate::census::{Census, settle};
use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{Failure, run_name};
use tally::{FaultCount, Pace, Seen};

const AREA: &str = "gui";
/// The rows of the design that this area answers to.
const STEP_AT_MOST: f64 = 1.5;
const BROWSERGYM_AT_LEAST: f64 = 10.0;
/// Growth within this is flat.
const FLAT: f64 = 1.2;

/// Starts an episode, as the importer's tasks do.
const PREPARE: &str = "Math.seedrandom('1'); core.EPISODE_MAX_TIME = 1e9; core.startEpisodeReal();";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder `html` of the package `miniwob`, or the one that `clawrl import miniwob` made of it.
    #[arg(long)]
    miniwob: PathBuf,
    /// Environments at once, one row each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16], value_parser = clap::value_parser!(u32).range(1..))]
    slots: Vec<u32>,
    /// How often each side is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Attempts of each slot in a round, after one that does not count.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// Steps of each attempt.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Ours, Side::Bare])]
    sides: Vec<Side>,
    /// A Python with `browsergym-miniwob`, which is measured too; `peers/install.sh browsergym` makes one.
    #[arg(long)]
    browsergym: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// GUI environments, attempt after attempt.
    Ours,
    /// Bare WebDriver.
    Bare,
    /// One environment of BrowserGym.
    #[value(skip)]
    Browsergym,
}

impl Side {
    fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Bare => "bare",
            Self::Browsergym => "BrowserGym",
        }
    }
}

/// One side, once. What is not known of a side is not a number.
#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    slots: u32,
    round: u32,
    steps: usize,
    step_p50_ms: f64,
    step_p95_ms: f64,
    /// Of all slots together, resets and grades included.
    steps_per_second: f64,
    resets: usize,
    reset_p50_ms: f64,
    reset_p95_ms: f64,
    /// MemAvailable that went, per slot.
    mib_each: f64,
    /// Most browsers at once.
    browsers: f64,
    /// Wall time until all browsers were there.
    start_s: f64,
    /// By boundary and code.
    faults: BTreeMap<String, FaultCount>,
    /// What was there after the end and was not before, one sentence each.
    left: Vec<String>,
}

impl Row {
    fn of(side: Side, slots: u32, round: u32, seen: Seen) -> Self {
        let in_ms = |times: &[f64]| Sample::new(times.iter().map(|seconds| seconds * 1e3).collect());
        let (steps, resets) = (in_ms(&seen.tally.steps), in_ms(&seen.tally.resets));
        Self {
            side,
            slots,
            round,
            steps: seen.tally.steps.len(),
            step_p50_ms: steps.median(),
            step_p95_ms: steps.quantile(0.95),
            steps_per_second: seen.tally.steps.len() as f64 / seen.lasted_s,
            resets: seen.tally.resets.len(),
            reset_p50_ms: resets.median(),
            reset_p95_ms: resets.quantile(0.95),
            mib_each: f64::NAN,
            browsers: f64::NAN,
            start_s: seen.start_s,
            faults: seen.tally.faults,
            left: seen.left,
        }
    }

    fn fault_count(&self) -> u32 {
        self.faults.values().map(|fault| fault.count).sum()
    }
}

/// What all measurements of a side share.
struct Bench<'a> {
    html: &'a Path,
    programs: &'a BrowserPrograms,
    pace: Pace,
    /// The most memory that was ever available before a round: what an earlier round has not given back yet must not make a
    /// later one look small.
    available_kib: u64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let html = std::fs::canonicalize(&arguments.miniwob)
        .map_err(|error| format!("{}: {error}", arguments.miniwob.display()))?;
    if !html.join("miniwob/click-checkboxes.html").is_file() {
        return Err(format!("{} has no miniwob/click-checkboxes.html", html.display()).into());
    }
    let programs = find_programs(&std::env::var("PATH").unwrap_or_default())?;
    let pace = Pace { attempts: arguments.attempts, steps: arguments.steps };
    let once = Pace { attempts: 1, steps: 1 };
    let mut bench = Bench { html: &html, programs: &programs, pace: once, available_kib: 0 };
    // What this process opens once and keeps is no remnant of a round.
    for &side in &arguments.sides {
        bench.measure(side, 1, 0)?;
    }
    bench = Bench { pace, available_kib: 0, ..bench };
    let mut rows = Vec::new();
    for round in 1..=arguments.rounds {
        for &slots in &arguments.slots {
            for &side in &arguments.sides {
                let row = bench.measure(side, slots, round)?;
                // It takes long: what was measured stays when somebody ends it.
                rows::append(out, AREA, std::slice::from_ref(&row))?;
                let told = format!(
                    "round {round}/{}: {slots} slots, {}: {:.1} steps/s, p50 {:.1} ms, {:.0} MiB each, {} faults\n",
                    arguments.rounds,
                    side.label(),
                    row.steps_per_second,
                    row.step_p50_ms,
                    row.mib_each,
                    row.fault_count(),
                );
                std::io::stderr().write_all(told.as_bytes())?;
                rows.push(row);
            }
        }
    }
    if let Some(python) = &arguments.browsergym {
        let steps = (arguments.attempts * arguments.steps).div_ceil(4);
        let peer = browsergym::measure(python, &html, &programs, arguments.rounds, steps)?;
        rows::append(out, AREA, &peer)?;
        rows.extend(peer);
    }
    Ok(table(arguments, &rows))
}

impl Bench<'_> {
    fn measure(&mut self, side: Side, slots: u32, round: u32) -> Result<Row, Failure> {
        if round > 0 {
            settle();
        }
        let before = Census::take();
        self.available_kib = self.available_kib.max(before.memory_available_kib);
        let owner = format!("clawrl-{}-{}-", run_name(AREA), std::process::id());
        let (mut seen, most) = match side {
            Side::Ours => ours::measure(self.html, self.programs, slots, self.pace, &owner)?,
            _ => bare::measure(self.html, self.programs, slots, self.pace)?,
        };
        if side == Side::Ours {
            seen.left.extend(before.left_since(&owner));
        }
        let gone = self.available_kib as f64 - most.least_available_kib as f64;
        let mib_each = gone / 1024.0 / f64::from(slots);
        Ok(Row { mib_each, browsers: most.browsers as f64, ..Row::of(side, slots, round, seen) })
    }
}

const COLUMNS: [&str; 11] = [
    "side",
    "slots",
    "step p50",
    "step p95",
    "steps/s",
    "reset p50",
    "reset p95",
    "MiB a slot",
    "browsers",
    "start, s",
    "faults",
];

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let of = |side: Side, slots: u32| rows.iter().filter(move |row| row.side == side && row.slots == slots);
    let sample =
        |side: Side, slots: u32, value: fn(&Row) -> f64| Sample::new(of(side, slots).map(value).collect());
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    for &slots in &arguments.slots {
        for side in [Side::Ours, Side::Bare, Side::Browsergym] {
            if of(side, slots).next().is_none() {
                continue;
            }
            let cell = |value: fn(&Row) -> f64| {
                let sample = sample(side, slots, value);
                if sample.median().is_nan() { "-".to_owned() } else { sample.summary() }
            };
            let most = sample(side, slots, |row| row.browsers).quantile(1.0);
            let faults: u32 = of(side, slots).map(Row::fault_count).sum();
            lines.push(vec![
                side.label().to_owned(),
                slots.to_string(),
                cell(|row| row.step_p50_ms),
                cell(|row| row.step_p95_ms),
                cell(|row| row.steps_per_second),
                cell(|row| row.reset_p50_ms),
                cell(|row| row.reset_p95_ms),
                cell(|row| row.mib_each),
                if most.is_nan() { "-".to_owned() } else { format!("{most:.0}") },
                cell(|row| row.start_s),
                faults.to_string(),
            ]);
        }
    }
    let mut text = format!(
        "milliseconds, median (least-greatest) of {} rounds of {} attempts of {} steps a slot; {} resets and {} steps of ours\n\n{}",
        arguments.rounds,
        arguments.attempts,
        arguments.steps,
        rows.iter().filter(|row| row.side == Side::Ours).map(|row| row.resets).sum::<usize>(),
        rows.iter().filter(|row| row.side == Side::Ours).map(|row| row.steps).sum::<usize>(),
        render(&lines)
    );
    let met = |met: bool| if met { "met" } else { "missed" };
    for &slots in &arguments.slots {
        let p50 = |side| sample(side, slots, |row| row.step_p50_ms).median();
        let ratio = p50(Side::Ours) / p50(Side::Bare);
        if ratio.is_finite() {
            let verdict = met(ratio <= STEP_AT_MOST);
            text += &format!(
                "\n{slots} slots: a step takes {ratio:.2} x the bare one, target at most {STEP_AT_MOST}: {verdict}"
            );
        }
        let gym = p50(Side::Browsergym) / p50(Side::Ours);
        if gym.is_finite() {
            let verdict = met(gym >= BROWSERGYM_AT_LEAST);
            text += &format!(
                "\n{slots} slots: {gym:.1} x as fast as BrowserGym, target at least {BROWSERGYM_AT_LEAST} x: {verdict}"
            );
        }
    }
    text += &growth(arguments, &sample);
    text + &troubles(rows)
}

/// What a step and a slot cost where there are more of them than at first.
fn growth(arguments: &Arguments, sample: &dyn Fn(Side, u32, fn(&Row) -> f64) -> Sample) -> String {
    let Some((&first, more)) = arguments.slots.split_first() else { return String::new() };
    let mut text = String::new();
    for &slots in more.iter().filter(|_| arguments.sides.contains(&Side::Ours)) {
        let median = |slots, value| sample(Side::Ours, slots, value).median();
        let step = median(first, |row| row.steps_per_second) / median(slots, |row| row.steps_per_second);
        let memory = median(slots, |row| row.mib_each) / median(first, |row| row.mib_each);
        let verdict = if step <= FLAT && memory <= FLAT { "met" } else { "missed" };
        text += &format!(
            "\nfrom {first} to {slots} slots: time per step of all {step:.2} x, memory per slot {memory:.2} x, \
             target at most {FLAT} x: {verdict}"
        );
    }
    text
}

/// Faults with the first message of each, and what was left behind.
fn troubles(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for (code, FaultCount { count, first }) in &row.faults {
            text += &format!(
                "\n{} slots, round {}, {}: {count} x {code}, first: {first}",
                row.slots,
                row.round,
                row.side.label()
            );
        }
        for left in &row.left {
            text += &format!("\n{} slots, round {}: left: {left}", row.slots, row.round);
        }
    }
    if text.is_empty() { "\n0 faults; nothing left".to_owned() } else { text }
}
