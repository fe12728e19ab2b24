//! Runs a training with several seeds, one after the other, and summarizes them.
//!
//! I1. Each training is a separate process, so that its results equal those of a single run and its memory is freed.
//! I2. After an aborted training the next one starts; any other early end stops all.
//!
//! Cancellation: a signal is forwarded to the current training, and no other starts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use clawrl_config::TrainPlan;
use clawrl_core::RunId;
use clawrl_record::{RunStore, percent};
use clawrl_runtime::training::{TrainOutcome, check_training_name, default_training_name};
use clawrl_runtime::{quoted, unused_name};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::table::aligned;

/// Summary over all seeds.
#[derive(Debug, Serialize)]
struct TrainedSeeds {
    seeds: Vec<TrainedSeed>,
    /// Held-out success after the last update, over completed trainings.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Spread>,
    /// Held-out success of the best evaluation of each training.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Spread>,
}

/// Result of one seed.
#[derive(Debug, Serialize)]
struct TrainedSeed {
    seed: u64,
    run: RunId,
    /// `None` if the training was aborted.
    trained: Option<TrainOutcome>,
}

/// Mean and extremes over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self { mean: values.iter().sum::<f64>() / values.len() as f64, least, most })
    }

    fn words(self) -> String {
        format!("{} ({} to {})", percent(self.mean), percent(self.least), percent(self.most))
    }
}

/// Trains with each of the seeds of the arguments. `plan` is that of the file.
///
/// # Errors
/// A name is taken, a seed is repeated, or a training ended early.
pub(super) fn train_seeds(
    arguments: &Arguments,
    file: &Path,
    plan: &TrainPlan,
    log: &Log,
) -> Result<Exit, Failure> {
    let store = arguments.results.store()?;
    let all = match &arguments.name {
        Some(name) => name.to_string(),
        None => unused_name(&store, &default_training_name(&plan.name))?.to_string(),
    };
    let runs = names(&all, &arguments.seeds, &store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::Environment, format!("cannot wait for a training: {error}")))?;
    let mut seeds = Vec::new();
    for (at, (&seed, run)) in arguments.seeds.iter().zip(&runs).enumerate() {
        if !arguments.quiet {
            let (number, count) = (at + 1, runs.len());
            log.note(format_args!("seed {seed}, {number} of {count}: training {run}"));
        }
        let (code, said) = runtime.block_on(train_one(arguments, file, seed, run))?;
        if code != Exit::Success && code != Exit::TrainingFailed {
            if code == Exit::Interrupted {
                to_go_on(arguments, file, &all, at, log);
            }
            return Ok(code);
        }
        let trained = (code == Exit::Success).then(|| serde_json::from_slice::<TrainOutcome>(&said));
        let trained = trained.transpose().map_err(|error| {
            Failure::new(Exit::Internal, format!("training {run} did not say what it came to: {error}"))
        })?;
        seeds.push(TrainedSeed { seed, run: run.clone(), trained });
    }
    let exit =
        if seeds.iter().all(|seed| seed.trained.is_some()) { Exit::Success } else { Exit::TrainingFailed };
    let of = |figure: &dyn Fn(&TrainOutcome) -> Option<f64>| {
        let values: Vec<f64> = seeds.iter().filter_map(|seed| figure(seed.trained.as_ref()?)).collect();
        Spread::of(&values)
    };
    let last = of(&|trained| Some(trained.held_out.last()?.1.value));
    let best = of(&|trained| Some(trained.best.as_ref()?.success.value));
    let trained = TrainedSeeds { last, best, seeds };
    if arguments.json {
        print_json(&trained)?
    } else {
        print(&words(&all, &trained))?
    }
    Ok(exit)
}

/// Unused run names, one per seed.
fn names(all: &str, seeds: &[u64], store: &RunStore) -> Result<Vec<RunId>, Failure> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = seeds.iter().find(|&&seed| !seen.insert(seed)) {
        let help = "the same seed trains the same; name each once";
        return Err(Failure::with_help(Exit::Refused, format!("seed {twice} is named twice"), help));
    }
    let named = seeds.iter().map(|seed| {
        let name = format!("{all}-s{seed}");
        let run = RunId::new(&name).ok_or_else(|| {
            Failure::with_help(
                Exit::Refused,
                format!("{name} is too long for a name"),
                "choose a shorter one with --name",
            )
        })?;
        check_training_name(&run)?;
        if store.run(&run).is_ok() {
            let help =
                format!("choose another name with --name, or go on with it: clawrl train --resume {run}");
            return Err(Failure::with_help(Exit::NoSuchRun, format!("run {run} exists already"), help));
        }
        Ok(run)
    });
    named.collect()
}

/// Trains with one seed in a separate process (I1). Returns its exit status and output.
async fn train_one(
    arguments: &Arguments,
    file: &Path,
    seed: u64,
    run: &RunId,
) -> Result<(Exit, Vec<u8>), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Environment, format!("cannot start training {run}: {error}"))
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("train").arg(file).args(["--json", "--name", run.as_str(), "--seed", &seed.to_string()]);
    command.arg("--results").arg(arguments.results.dir());
    command.args(arguments.settings.iter().flat_map(|setting| ["--set", setting.written()]));
    command.args(arguments.quiet.then_some("--quiet"));
    // Own process group: otherwise a terminal would send Ctrl-C to both.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    // Registered before the process starts, so that no signal ends only this process.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    let (pid, out) = (child.id(), child.stdout.take());
    let read = async {
        let mut said = Vec::new();
        if let Some(mut out) = out {
            out.read_to_end(&mut said).await?;
        }
        Ok::<_, std::io::Error>(said)
    };
    let ended = async { tokio::join!(child.wait(), read) };
    tokio::pin!(ended);
    let mut is_ended = false;
    let (status, said) = loop {
        let heard = tokio::select! {
            ended = &mut ended => break ended,
            _ = interrupt.recv() => Signal::INT,
            _ = terminate.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
        };
        is_ended = true;
        let process = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(process) = process {
            // The process may have ended meanwhile.
            let _ = kill_process(process, heard);
        }
    };
    let said = said.map_err(failed)?;
    let code = status.map_err(failed)?.code();
    let exit = code.and_then(|code| Exit::ALL.into_iter().find(|exit| i32::from(exit.code()) == code));
    // A starting process is killed by the signal.
    let exit = exit.or(is_ended.then_some(Exit::Interrupted));
    let exit = exit.ok_or_else(|| {
        let help = format!("`clawrl train --resume {run}` goes on with it");
        Failure::with_help(Exit::Internal, format!("training {run} was killed"), help)
    })?;
    Ok((exit, said))
}

/// Prints how to continue from this seed.
fn to_go_on(arguments: &Arguments, file: &Path, all: &str, at: usize, log: &Log) {
    let left: Vec<String> = arguments.seeds.iter().skip(at + 1).map(u64::to_string).collect();
    if left.is_empty() || arguments.quiet {
        return;
    }
    let settings: String = arguments
        .settings
        .iter()
        .map(|setting| format!(" --set {}", quoted(Path::new(setting.written()))))
        .collect();
    // A single seed would use the name without a suffix.
    let name = if let [only] = left.as_slice() { format!("{all}-s{only}") } else { all.to_owned() };
    log.note(format_args!(
        "after that, with the other seeds: clawrl train {} --seed {} --name {name}{settings}{}",
        quoted(file),
        left.join(","),
        arguments.results.repeated()
    ));
}

fn words(all: &str, trained: &TrainedSeeds) -> String {
    let rows: Vec<[String; 5]> = trained.seeds.iter().map(row).collect();
    let table =
        aligned(["seed", "training", "before", "last", "best"], [true, false, true, true, false], &rows);
    let mut text = format!("\ntrainings {all}: {} seeds\n\nheld-out, greedy\n{table}", trained.seeds.len());
    if let (Some(last), Some(best)) = (trained.last, trained.best) {
        text += &format!(
            "\nlast, mean (least to most)  {}\nbest                        {}\n",
            last.words(),
            best.words()
        );
    }
    text
}

fn row(TrainedSeed { seed, run, trained }: &TrainedSeed) -> [String; 5] {
    let success = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), percent);
    let evaluated = trained.iter().flat_map(|trained| &trained.held_out);
    let rates: Vec<f64> = evaluated.map(|(_, rate)| rate.value).collect();
    let best = match trained {
        None => "given up".to_owned(),
        Some(trained) => trained.best.as_ref().map_or_else(
            || "-".to_owned(),
            |best| format!("{}, version {}", percent(best.success.value), best.version),
        ),
    };
    [seed.to_string(), run.to_string(), success(rates.first().copied()), success(rates.last().copied()), best]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_seeds_is_their_mean_and_extremes() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread::of(&[0.5, 0.25, 0.75]).unwrap();
        assert_eq!(spread, Spread { mean: 0.5, least: 0.25, most: 0.75 });
        assert_eq!(spread.words(), "50.0 % (25.0 % to 75.0 %)");
    }
}
