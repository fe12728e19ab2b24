//! How often a gate fails a policy that draws and has not changed, with a real policy in real environments.
//!
//! Each judgement is a team of its own: `clawrl ci accept` makes a baseline with seeds of its own, then `clawrl ci` judges the same policy,
//! which draws by other seeds. The tasks are the same each time, so the figure is about this suite and this policy. Where all judgements
//! found the same rate on both sides, nothing was drawn, and there is no figure.
//!
//! There is no peer here: the sides are the promise and what came. The interval is that of Clopper and Pearson at 95 %, two-sided.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clawrl_gates::clopper_pearson;
use serde::Serialize;

use crate::rows;
use crate::table::render;
use crate::terminals::Failure;

const AREA: &str = "gate-sampling";
/// Fails that are allowed, for each that alpha lets expect: 5 of 200 at 1 %.
const ALLOWED: f64 = 2.5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Baselines that are made, each judged once.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    judgements: u64,
    /// Probability of a false alarm that the gate is set to.
    #[arg(long, default_value_t = 0.01)]
    alpha: f64,
    /// The suite.
    #[arg(long, default_value = "tasks/toolcall-basics")]
    suite: PathBuf,
    /// Tasks of it.
    #[arg(long, default_value_t = 19)]
    tasks: u32,
    /// Attempts at each task.
    #[arg(long, default_value_t = 16)]
    repeats: u32,
    /// The policy's folder.
    #[arg(long, default_value = "ci/gates/tiny")]
    policy: PathBuf,
    /// The temperature it draws at.
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// How often the gate looks, the end included.
    #[arg(long, default_value_t = 1)]
    looks: u32,
    /// The first seed; each judgement takes two.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Default, Serialize)]
struct Row {
    suite: String,
    tasks: u32,
    repeats: u32,
    temperature: f64,
    looks: u32,
    alpha: f64,
    seed: u64,
    judgements: u64,
    passed: u64,
    failed: u64,
    inconclusive: u64,
    /// Judgements of two sides with the same pass rate.
    even: u64,
}

/// Judges, and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let program = std::env::current_exe()?.with_file_name("clawrl-torch");
    if !program.is_file() {
        return Err(format!("{} is not there; ci/bench/run.sh builds it", program.display()).into());
    }
    let place = tempfile::tempdir()?;
    let gate = place.path().join("gate.yaml");
    let Arguments { tasks, repeats, temperature, looks, alpha, seed, judgements, .. } = *arguments;
    let suite = arguments.suite.display().to_string();
    let mut row =
        Row { suite, tasks, repeats, temperature, looks, alpha, seed, judgements, ..Row::default() };
    for judgement in 0..judgements {
        let first = seed + 2 * judgement;
        fs::write(&gate, gate_file(arguments, first)?)?;
        let results = place.path().join("results");
        let clawrl = |words: &[&str], seed: u64| {
            let mut command = Command::new(&program);
            command.arg("ci").args(words).arg(&gate).args(["--quiet", "--sampling-seed", &seed.to_string()]);
            command.arg("--results").arg(&results).stdin(Stdio::null()).output()
        };
        let accepted = clawrl(&["accept"], first)?;
        if !accepted.status.success() {
            return Err(String::from_utf8_lossy(&accepted.stderr).into_owned().into());
        }
        let judged = clawrl(&["--json"], first + 1)?;
        match judged.status.code() {
            Some(0) => row.passed += 1,
            Some(10) => row.failed += 1,
            Some(11) => row.inconclusive += 1,
            _ => return Err(String::from_utf8_lossy(&judged.stderr).into_owned().into()),
        }
        let said: serde_json::Value = serde_json::from_slice(&judged.stdout)?;
        row.even += u64::from(said[0]["metrics"][0]["verdict"]["findings"]["harm"] == 0.0);
        // Hundreds of runs would fill a disk.
        fs::remove_dir_all(&results)?;
    }
    if row.even == row.judgements {
        return Err("both sides of each judgement have the same pass rate: nothing was drawn".into());
    }
    rows::append(out, AREA, std::slice::from_ref(&row))?;
    Ok(table(&row))
}

fn gate_file(arguments: &Arguments, seed: u64) -> Result<String, Failure> {
    let absolute = |path: &Path| {
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, Failure>(path.display().to_string())
    };
    let (suite, policy) = (absolute(&arguments.suite)?, absolute(&arguments.policy)?);
    let Arguments { tasks, repeats, temperature, looks, alpha, .. } = arguments;
    Ok(format!(
        "format: 1\ngate: unchanged\nseed: {seed}\nsuites: [{{ path: {}, limit: {tasks} }}]\npolicy: {}\nrepeats: {repeats}\n\
         interim_analyses: {looks}\nalpha: {alpha}\nmetrics: [{{ metric: pass_rate, min_effect: 0.1 }}]\n",
        serde_json::Value::from(suite),
        serde_json::Value::from(format!("torch:{policy}@{temperature}")),
    ))
}

fn table(row: &Row) -> String {
    let head = [
        "suite",
        "tasks",
        "repeats",
        "temperature",
        "looks",
        "alpha",
        "judgements",
        "failed",
        "passed",
        "inconclusive",
    ];
    let cells = vec![
        row.suite.clone(),
        row.tasks.to_string(),
        row.repeats.to_string(),
        row.temperature.to_string(),
        row.looks.to_string(),
        row.alpha.to_string(),
        row.judgements.to_string(),
        row.failed.to_string(),
        row.passed.to_string(),
        row.inconclusive.to_string(),
    ];
    format!("{}\n{}", render(&[head.map(str::to_owned).to_vec(), cells]), verdict(row))
}

fn verdict(row: &Row) -> String {
    let allowed = (ALLOWED * row.alpha * row.judgements as f64).floor();
    let is_met = if row.failed as f64 <= allowed { "met" } else { "missed" };
    let (low, high) = clopper_pearson(row.failed, row.judgements, 0.95);
    format!(
        "an unchanged policy fails {} of {} times ({:.1} to {:.1} %), target at most {allowed:.0}: {is_met}; both sides were even {} times",
        row.failed,
        row.judgements,
        100.0 * low,
        100.0 * high,
        row.even
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fails_are_held_against_alpha() {
        let check = |failed, expected: &str| {
            let row = Row { alpha: 0.01, judgements: 200, failed, ..Row::default() };
            assert!(verdict(&row).contains(expected), "{}", verdict(&row));
        };
        check(5, "target at most 5: met;");
        check(6, "target at most 5: missed;");
    }
}
