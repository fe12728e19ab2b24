//! `clawrl train` from its arguments to what is printed.

use clawrl_config::{TrainPlan, load_train};
use clawrl_core::RunId;

use super::libtorch::check_libtorch;
use super::session::{Request, Start, train};
use clawrl_cli::command::train::Arguments;
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;
use clawrl_cli::log::Log;
use clawrl_cli::output::{print, print_json};
use clawrl_cli::plan_request::{stamp, unused_name};

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
            let mut plan = load_train(file)?;
            plan.seed = arguments.seed.unwrap_or(plan.seed);
            let run = match &arguments.name {
                Some(name) => name.clone(),
                None => unused_name(&store, &format!("{}-{}", stamp(), plan.name))?,
            };
            (plan, run, Start::New)
        }
        (None, None) => {
            return Err(Failure::new(Exit::Refused, "name a train file, or a training to --resume"));
        }
    };
    let resume = format!("clawrl train --resume {run}{}", arguments.results.repeated());
    let (profile, quiet) = (arguments.profile, arguments.quiet);
    let request = Request { plan, run, results: arguments.results.dir(), start, profile, quiet };
    let trained = train(request, log).inspect_err(|failure| {
        if failure.exit == Exit::Interrupted && !arguments.quiet {
            log.note(format_args!("to go on: {resume}"));
        }
    })?;
    if arguments.json {
        print_json(&trained)?;
        return Ok(Exit::Success);
    }
    let percent = |rate: &clawrl_record::PassRate| {
        format!(
            "{:.1} % (95 % interval {:.1} to {:.1} %)",
            100.0 * rate.value,
            100.0 * rate.low,
            100.0 * rate.high
        )
    };
    let mut text = format!("\ntraining {}: {} updates\n\nheld-out, greedy\n", trained.run, trained.updates);
    for (version, rate) in &trained.held_out {
        text += &format!("  after {version:>5} updates  {}\n", percent(rate));
    }
    if let [(_, first), .., (_, last)] = trained.held_out.as_slice() {
        text += &format!("  change              {:+.1} points\n", 100.0 * (last.value - first.value));
    }
    text += &format!("\nreport      {}\npolicy      {}\n", trained.page.display(), trained.policy.display());
    print(&text)?;
    Ok(Exit::Success)
}
