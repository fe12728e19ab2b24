//! `clawrl train` from its arguments to what is printed.

use clawrl_config::{TrainPlan, load_train_with};
use clawrl_core::RunId;
use clawrl_record::render_held_out;

use super::best::{self, Best};
use super::files::{NAME_CHARS, TrainingFiles};
use super::libtorch::check_libtorch;
use super::seeds::train_seeds;
use super::session::{Request, Start, Trained, train};
use clawrl_cli::command::train::Arguments;
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;
use clawrl_cli::log::Log;
use clawrl_cli::output::{print, print_json};
use clawrl_cli::plan_request::{stamp, unused_name};
use clawrl_cli::results::quoted;

/// Does what the arguments say and tells what it came to.
pub(crate) fn run_train(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    check_libtorch()?;
    let store = arguments.results.store()?;
    let (plan, run, start): (TrainPlan, RunId, Start) = match (&arguments.resume, &arguments.file) {
        (Some(run), _) => {
            let kept = store.run(run)?.train()?.ok_or_else(|| {
                let help = "`clawrl run --resume` goes on with other runs";
                Failure::with_help(Exit::Refused, format!("run {run} is no training"), help)
            })?;
            let plan = serde_json::from_value(kept).map_err(|error| {
                Failure::new(Exit::Results, format!("the train file of run {run} cannot be read: {error}"))
            })?;
            (plan, run.clone(), Start::Resume)
        }
        (None, Some(file)) => {
            let mut plan = load_train_with(file, &arguments.settings)?;
            if let [_, _, ..] = arguments.seeds.as_slice() {
                return train_seeds(arguments, file, &plan, log);
            }
            plan.seed = arguments.seeds.first().copied().unwrap_or(plan.seed);
            let run = match &arguments.name {
                Some(name) => name.clone(),
                None => unused_name(&store, &usual_name(&plan.name))?,
            };
            (plan, run, Start::New)
        }
        (None, None) => {
            return Err(Failure::new(Exit::Refused, "name a train file, or a training to --resume"));
        }
    };
    let repeated = arguments.results.repeated();
    let quiet = arguments.quiet;
    let is_named = arguments.name.is_some();
    let request = Request { plan, run, is_named, results: arguments.results.dir(), start, quiet };
    let mut name = None;
    let trained = train(request, |run| name = Some(run.clone()), log);
    if let (Err(failure), Some(run)) = (&trained, name) {
        match failure.exit {
            Exit::Interrupted if !arguments.quiet => {
                log.note(format_args!("to go on: clawrl train --resume {run}{repeated}"));
            }
            Exit::TrainingFailed => {
                let files = TrainingFiles::new(run, arguments.results.dir())?;
                // Without an evaluation there is nothing to add.
                if let Ok(Some(words)) = best::way_back(&files, &repeated) {
                    log.note(format_args!("{words}"));
                }
            }
            _ => {}
        }
    }
    let trained = trained?;
    if arguments.json {
        print_json(&trained)?;
        return Ok(Exit::Success);
    }
    print(&words(&trained, &repeated))?;
    Ok(Exit::Success)
}

/// The name of a training that is given none; with a number behind it, it still leaves room for those of its parts.
pub(super) fn usual_name(train: &str) -> String {
    format!("{}-{train}", stamp()).chars().take(NAME_CHARS - 4).collect()
}

/// What a training came to.
fn words(trained: &Trained, repeated: &str) -> String {
    let run = &trained.run;
    let mut text = format!("\ntraining {run}: {} updates\n\nheld-out, greedy\n", trained.updates);
    text += &render_held_out(&trained.evaluated);
    if let [first, .., last] = trained.evaluated.as_slice() {
        let change = last.rate().value - first.rate().value;
        text += &format!("  change              {:+.1} points\n", 100.0 * change);
    }
    text += &format!("\nreport      {}\npolicy      {}", trained.page.display(), trained.policy.display());
    let Some(best) = &trained.best else { return text + "\n" };
    let Some(folder) = &best.policy else { return text + "\n" };
    if *folder == trained.policy {
        let remark = if trained.evaluated.len() > 1 { " (no evaluation was better)" } else { "" };
        return text + remark + "\n";
    }
    let Best { version, updates, .. } = best;
    text += &format!("\nbest        {} (version {version}, after {updates} updates)\n", folder.display());
    text += &format!("to run it   clawrl run SUITE --policy torch:{}\n", quoted(folder));
    text + &format!("to go back  clawrl policy rollback {run} --to {version}{repeated}\n")
}
