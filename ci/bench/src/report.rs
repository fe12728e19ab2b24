//! `clawrl report` of runs of many steps, against reading the same bytes.
//!
//! - `report`: the program as a user starts it, from its start to its end: journal and every trajectory read and
//!   checked, figures, page written.
//! - `read`: the files of the same run, read whole into memory. The limit.
//!
//! Runs are written once by the record's own writer, before the clock starts, with what a terminal's turns look like:
//! a command, some lines of output that differ from turn to turn, facts, and a recording of the session. Both sides
//! find the files in the page cache, which favours `read`. The page is written to the same disk, and nothing is synced.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clawrl_core::{
    AttemptId, AttemptRecord, Boundary, CheckReport, EpisodeSink, Epoch, Fault, Grade, LeaseRecord, Outcome,
    PhaseTimes, RunId, SplitMix64, StopReason, Trajectory,
};
use clawrl_record::{LockFile, RunEnd, RunWriter};
use serde::Serialize;
use serde_json::{Value, json};

use crate::rows;
use crate::scheduler::null;
use crate::table::{Sample, render};

/// The row of the design that this area answers to: of a run of so many steps.
const TARGET_SECONDS: f64 = 3.0;
const TARGET_STEPS: u32 = 100_000;

/// Words of commands and outputs.
const WORDS: [&str; 16] = [
    "river",
    "src/main.rs",
    "apple",
    "total",
    "drwxr-xr-x",
    "README.md",
    "error:",
    "lines",
    "sorted",
    "0x7f",
    "names.txt",
    "warning",
    "copy",
    "3.14159",
    "grep",
    "plum",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Steps of the runs, one run each.
    #[arg(long, value_delimiter = ',', default_values_t = [6_250, 25_000, TARGET_STEPS])]
    steps: Vec<u32>,
    /// Turns of an attempt.
    #[arg(long, default_value_t = 20)]
    turns: u32,
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Report,
    Read,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    steps: u32,
    round: u32,
    seconds: f64,
    /// Of the run's files.
    run_bytes: u64,
    /// Of the page; 0 for reading.
    page_bytes: u64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Box<dyn Error>> {
    let program = std::env::current_exe()?.with_file_name("clawrl");
    if !program.is_file() {
        return Err(format!("{} is not there; ci/bench/run.sh builds it", program.display()).into());
    }
    let folder = tempfile::tempdir()?;
    for &steps in &arguments.steps {
        write_run(folder.path(), steps, arguments.turns)?;
    }
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        for &steps in &arguments.steps {
            for side in [Side::Report, Side::Read] {
                let row = match side {
                    Side::Report => reported(&program, folder.path(), steps, round)?,
                    Side::Read => read(folder.path(), steps, round)?,
                };
                if round > 0 {
                    rows.push(row);
                }
            }
        }
    }
    rows::append(out, "report", &rows)?;
    Ok(table(arguments, &rows))
}

fn name(steps: u32) -> String {
    format!("bench-{steps}")
}

fn run_folder(results: &Path, steps: u32) -> PathBuf {
    results.join("runs").join(name(steps))
}

fn reported(program: &Path, results: &Path, steps: u32, round: u32) -> Result<Row, Box<dyn Error>> {
    let page = results.join(format!("{}.html", name(steps)));
    let mut command = Command::new(program);
    command.arg("report").arg(name(steps)).arg("--results").arg(results).arg("--output").arg(&page);
    let begin = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    let seconds = begin.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("clawrl report ended with {status}").into());
    }
    let run_bytes = files(results, steps)?.len() as u64;
    Ok(Row { side: Side::Report, steps, round, seconds, run_bytes, page_bytes: page.metadata()?.len() })
}

fn read(results: &Path, steps: u32, round: u32) -> Result<Row, Box<dyn Error>> {
    let begin = Instant::now();
    let bytes = black_box(files(results, steps)?);
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Row { side: Side::Read, steps, round, seconds, run_bytes: bytes.len() as u64, page_bytes: 0 })
}

/// Every byte of a run.
fn files(results: &Path, steps: u32) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(run_folder(results, steps))? {
        bytes.extend(std::fs::read(entry?.path())?);
    }
    Ok(bytes)
}

/// A run of so many steps in attempts of so many turns, in groups of eight; one attempt in fifty broke.
fn write_run(results: &Path, steps: u32, turns: u32) -> Result<(), Box<dyn Error>> {
    let attempts = steps.div_ceil(turns.max(1));
    let mut plan = null::plan(attempts, turns);
    plan.run = RunId::new(&name(steps)).ok_or("the name of a run")?;
    let writer = RunWriter::create(
        results,
        &plan,
        &LockFile::new(&plan, "clawrl-bench", BTreeMap::new(), Vec::new()),
    )?;
    let sink = writer.sink();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let mut random = SplitMix64::new(1);
        for slot in &plan.slots {
            let attempt = AttemptId { slot: slot.id, number: 0 };
            let lease = LeaseRecord { attempt, epoch: Epoch(u64::from(slot.id.0) + 1) };
            sink.leased(lease).await?;
            sink.resolved(record(lease, turns, &mut random)?).await?;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    drop(sink);
    writer.finish(RunEnd::Completed)?;
    Ok(())
}

fn record(
    lease: LeaseRecord,
    turns: u32,
    random: &mut SplitMix64,
) -> Result<AttemptRecord, serde_json::Error> {
    let outcome = if random.below(50) == 0 {
        Outcome::Faulted(Fault::permanent(Boundary::Env, "shell-lost", "the shell ended"))
    } else {
        let score = if random.below(3) == 0 { 0.0 } else { 1.0 };
        let message = "out.txt is `river apple`".to_owned();
        let check = CheckReport { label: "file_equals out.txt".to_owned(), score, weight: 1.0, message };
        let grade = Grade::from_checks(vec![check], Vec::new());
        Outcome::Finished { stop: StopReason::Submitted, reward: 2.0 * score - 1.0, grade }
    };
    let mut between = |least: u64, most: u64| Duration::from_micros(least + random.below(most - least));
    let times = PhaseTimes {
        lease: between(50, 500),
        setup: between(1_000, 9_000),
        policy: between(20_000, 90_000),
        step: between(9_000, 90_000),
        grade: between(3_000, 20_000),
        close: between(200, 900),
    };
    let trajectory = trajectory(turns, random)?;
    Ok(AttemptRecord {
        attempt: lease.attempt,
        epoch: lease.epoch,
        closes_slot: true,
        outcome,
        times,
        trajectory,
    })
}

fn trajectory(turns: u32, random: &mut SplitMix64) -> Result<Trajectory, serde_json::Error> {
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let mut cast = "{\"version\":2,\"width\":80,\"height\":24}\n".to_owned();
    let mut recorded: Vec<Value> = Vec::new();
    for turn in 0..turns {
        let command = words(random, 6);
        let output: Vec<String> = (0..1 + random.below(6)).map(|_| words(random, 8)).collect();
        let at = 0.1 * f64::from(turn);
        cast += &format!("[{at:.6},\"i\",{}]\n", json!(format!("{command}\r")));
        cast += &format!(
            "[{:.6},\"o\",{}]\n",
            at + 0.05,
            json!(format!("{command}\r\n{}\r\n$ ", output.join("\r\n")))
        );
        recorded.push(json!({
            "reply": { "role": "assistant", "parts": text(&command) },
            "calls": [{ "name": "run", "arguments": { "command": command } }],
            "observation": {
                "parts": text(&format!("{}\n[exit 0]", output.join("\n"))),
                "facts": { "exit_code": 0, "end": "completed", "folder": "/work" },
            },
            "policy_time": { "secs": 0, "nanos": 1_000 * (900 + random.below(9_000)) },
            "step_time": { "secs": 0, "nanos": 1_000 * (400 + random.below(4_000)) },
        }));
    }
    serde_json::from_value(json!({
        "prompt": [{ "role": "user", "parts": text("Sort names.txt into sorted.txt, without its empty lines.\n\n$ ") }],
        "reset": { "parts": text("$ ") },
        "turns": recorded,
        "cast": cast,
    }))
}

fn words(random: &mut SplitMix64, count: u64) -> String {
    let chosen: Vec<String> = (0..count)
        .map(|_| format!("{}{}", WORDS[random.below(WORDS.len() as u64) as usize], random.below(100)))
        .collect();
    chosen.join(" ")
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let seconds = |steps: u32, side: Side| {
        let of_side = rows.iter().filter(|row| row.steps == steps && row.side == side);
        Sample::new(of_side.map(|row| row.seconds * 1e3).collect())
    };
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let header = ["steps", "report", "read", "ratio", "us a step", "run, MiB", "page, MiB"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for &steps in &arguments.steps {
        let (ours, limit) = (seconds(steps, Side::Report), seconds(steps, Side::Read));
        let row = rows.iter().find(|row| row.steps == steps && row.side == Side::Report);
        lines.push(vec![
            steps.to_string(),
            ours.summary(),
            limit.summary(),
            format!("{:.0}", ours.median() / limit.median()),
            format!("{:.2}", ours.median() * 1e3 / f64::from(steps)),
            row.map_or_else(String::new, |row| mib(row.run_bytes)),
            row.map_or_else(String::new, |row| mib(row.page_bytes)),
        ]);
    }
    let target = arguments.steps.contains(&TARGET_STEPS).then(|| {
        let median = seconds(TARGET_STEPS, Side::Report).median() / 1e3;
        let verdict = if median <= TARGET_SECONDS { "met" } else { "missed" };
        format!("\ntarget: at most {TARGET_SECONDS} s for {TARGET_STEPS} steps: {verdict} ({median:.2} s)")
    });
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "milliseconds, median (least-greatest) of {} rounds; {} turns an attempt, {cores} cores\n\n{}{}",
        arguments.rounds,
        arguments.turns,
        render(&lines),
        target.unwrap_or_default(),
    )
}
