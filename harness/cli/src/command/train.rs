//! `clawrl train`: trains a policy or resumes a training.

mod seeds;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clawrl_config::{Problem, TrainSetting, load_train_with};
use clawrl_core::{BoxFuture, RunId};
use clawrl_record::{percent, render_held_out};
use clawrl_runtime::training::{
    BestVersion, NewestVersion, TrainError, TrainOutcome, TrainRequest, TrainStart, UpdateProgress, WayBack,
    default_training_name,
};
use clawrl_runtime::{Progress, RunningRun, parse_run_name, quoted, unused_name};

use seeds::train_seeds;

use super::removed;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::program::linked;
use crate::results::ResultsArguments;
use crate::training::Training;

/// Trains a policy in the environments of suites, by imitation and then reinforcement learning.
///
/// After Ctrl-C, current attempts finish and a checkpoint is written; `--resume` continues.
#[derive(Debug, clap::Args)]
#[command(
    arg = removed::profile(),
    override_usage = "clawrl train [OPTIONS] TRAIN.yaml\n       clawrl train --resume RUN",
    after_help = "Examples:\n  clawrl train policies/presets/terminal-tiny.yaml\n  \
                  clawrl train policies/presets/terminal-tiny.yaml --seed 1,2,3 --set rl.updates=50\n  \
                  clawrl train --resume my-training"
)]
pub(crate) struct Arguments {
    /// Train file.
    #[arg(value_name = "TRAIN.yaml", required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) file: Option<PathBuf>,
    /// Resume this training, under its own plan.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name)]
    pub(crate) resume: Option<RunId>,
    /// Name of the training [default: date, time and the train file's name].
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with = "resume")]
    pub(crate) name: Option<RunId>,
    /// Seed from which all others are derived, instead of the train file's. Several (1,2,3) start one training each,
    /// one after the other.
    #[arg(long = "seed", value_name = "N", value_delimiter = ',', conflicts_with = "resume")]
    pub(crate) seeds: Vec<u64>,
    /// Override a key of the train file, such as `rl.updates=10` or `suites.0.instances=50`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "resume")]
    pub(crate) settings: Vec<TrainSetting>,
    #[command(flatten)]
    /// The results folder.
    pub(crate) results: ResultsArguments,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only warnings and errors, no progress or notes.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Trains, and prints the outcome.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let training = linked()?;
    let store = arguments.results.store()?;
    let results = arguments.results.dir();
    let request = match (&arguments.resume, &arguments.file) {
        (Some(run), _) => TrainRequest::resume(run, results, &store)?,
        (None, Some(file)) => {
            let mut plan = load_train_with(file, &arguments.settings)?;
            if let [_, _, ..] = arguments.seeds.as_slice() {
                return train_seeds(arguments, file, &plan, log);
            }
            plan.seed = arguments.seeds.first().copied().unwrap_or(plan.seed);
            let run = match &arguments.name {
                Some(name) => name.clone(),
                None => unused_name(&store, &default_training_name(&plan.name))?,
            };
            let is_named = arguments.name.is_some();
            TrainRequest { plan, run, is_named, results, start: TrainStart::New }
        }
        (None, None) => {
            return Err(Failure::new(Exit::Refused, "name a train file, or a training to --resume"));
        }
    };
    let progress = Arc::new(TrainLog { log: log.quieted(arguments.quiet), started: OnceLock::new() });
    let outcome = training.train(request, Arc::clone(&progress) as Arc<dyn Progress>);
    if let (Err(error), Some(run)) = (&outcome, progress.started.get()) {
        tell_way_on(arguments, error, run, training, log);
    }
    let outcome = outcome?;
    if arguments.json {
        print_json(&outcome)?;
    } else {
        print(&summary_text(&outcome, &arguments.results.repeated()))?;
    }
    Ok(Exit::Success)
}

/// The log of a training; stores the training's name once it is known.
struct TrainLog {
    log: Log,
    started: OnceLock<RunId>,
}

impl Progress for TrainLog {
    fn step(&self, line: fmt::Arguments<'_>) {
        self.log.step(line);
    }

    fn note(&self, line: fmt::Arguments<'_>) {
        self.log.note(line);
    }

    fn warn(&self, line: fmt::Arguments<'_>) {
        self.log.warn(line);
    }

    fn file_warning(&self, problem: &Problem) {
        self.log.file_warning(problem);
    }

    fn show_run(&self, run: RunningRun, ended: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        self.log.show_run(run, ended)
    }

    fn training_started(&self, run: &RunId) {
        // A training starts once.
        let _ = self.started.set(run.clone());
    }

    fn update(&self, update: &UpdateProgress) {
        self.log.update(update);
    }
}

/// Prints how to continue a training that ended early, if possible.
fn tell_way_on(arguments: &Arguments, error: &TrainError, run: &RunId, training: &dyn Training, log: &Log) {
    let repeated = arguments.results.repeated();
    match error {
        TrainError::Interrupted(_) if !arguments.quiet => {
            log.note(format_args!("to go on: clawrl train --resume {run}{repeated}"));
        }
        TrainError::Aborted(_) => {
            // Without an evaluation there is no version to suggest.
            if let Ok(Some(way)) = training.way_back(run, &arguments.results.dir()) {
                log.note(format_args!("{}", way_back_text(&way, run, &repeated)));
            }
        }
        _ => {}
    }
}

fn way_back_text(way: &WayBack, run: &RunId, repeated: &str) -> String {
    let WayBack { version, updates, success, policy, newest } = way;
    let mut text = format!(
        "the best evaluation was {} after {updates} updates: version {version} is kept in {}",
        percent(success.value),
        policy.display()
    );
    if let Some(NewestVersion { version: newest, is_evaluated }) = newest {
        text += &format!("; to go back to it: clawrl policy rollback {run} --to {version}{repeated}");
        if !is_evaluated {
            text += &format!(". Version {newest}, the newest, was not evaluated");
        }
    }
    text
}

/// The outcome of a training. `repeated` is added to commands so that they find the results.
fn summary_text(outcome: &TrainOutcome, repeated: &str) -> String {
    let run = &outcome.run;
    let mut text = format!("\ntraining {run}: {} updates\n\nheld-out, greedy\n", outcome.updates);
    text += &render_held_out(&outcome.evaluated);
    if let [first, .., last] = outcome.evaluated.as_slice() {
        let change = last.rate().value - first.rate().value;
        text += &format!("  change              {:+.1} points\n", 100.0 * change);
    }
    text += &format!("\nreport      {}\npolicy      {}", outcome.page.display(), outcome.policy.display());
    let Some(best) = &outcome.best else { return text + "\n" };
    let Some(folder) = &best.policy else { return text + "\n" };
    if *folder == outcome.policy {
        let remark = if outcome.evaluated.len() > 1 { " (no evaluation was better)" } else { "" };
        return text + remark + "\n";
    }
    let BestVersion { version, updates, .. } = best;
    text += &format!("\nbest        {} (version {version}, after {updates} updates)\n", folder.display());
    text += &format!("to run it   clawrl run SUITE --policy torch:{}\n", quoted(folder));
    text + &format!("to go back  clawrl policy rollback {run} --to {version}{repeated}\n")
}
