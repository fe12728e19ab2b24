//! `clawrl ci accept`: makes a run the baseline. Only this command writes baselines.

use clawrl_config::{CiBudget, load_ci};
use clawrl_regression::{AcceptError, Baseline, Conditions, repeats_of};

use super::arguments::AcceptArguments;
use super::candidate::conditions_plan;
use super::judge::{baseline_path, repeats_failure, unusable};
use super::trial::{Actor, Start, Trial};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;

/// Runs the command.
pub(super) fn run(arguments: &AcceptArguments, log: &Log) -> Result<Exit, Failure> {
    let gate = load_ci(&arguments.gate)?;
    let store = arguments.results.store()?;
    let path = baseline_path(&gate, arguments.baseline.as_ref(), &arguments.results);
    let before = Baseline::read(&path, &gate.gate).ok();
    let run = match &arguments.run {
        Some(run) => store.run(run)?,
        None => {
            // The previous baseline may be invalid, and this run replaces it.
            let planned = repeats_of(&gate, before.as_ref()).or_else(|_| repeats_of(&gate, None));
            let repeats = planned.map_err(|error| repeats_failure(&gate, &error))?;
            let plan = arguments.candidate.run_plan(&gate, repeats, &store, log)?;
            gate.must_pass(&plan)?;
            // A baseline run is complete: neither interim analyses nor a budget end it.
            let actor = Actor::of(&plan, &store)?;
            let trial = Trial {
                start: Start::New(Box::new(plan)),
                actor,
                looks: None,
                budget: CiBudget::default(),
                results: &arguments.results,
                quiet: arguments.quiet,
            };
            trial.run(log)?
        }
    };
    let name = &run.plan().run;
    let expected = Conditions::of(&conditions_plan(&gate, &store, log)?);
    let differences = expected.differences(&Conditions::of(run.plan()));
    if !differences.is_empty() {
        let message = format!("run {name} is none of the gate `{}`: {}", gate.gate, differences.join("; "));
        let help = format!("leave --run out: `clawrl ci accept {}` runs the gate", gate.file.display());
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
    let program = run.lock_file()?.program;
    let allowed = gate.completeness.max_fault_share;
    let baseline = Baseline::of(&gate.gate, allowed, &run, &program, now).map_err(|error| {
        let help = match error {
            AcceptError::ManyFaults { .. } => {
                "`clawrl report` says what broke; the gate's `completeness: { max_fault_share: .. }` allows more"
            }
            _ => "a baseline has a graded attempt at every task; `clawrl report` says what went wrong",
        };
        Failure::with_help(Exit::Refused, error.to_string(), help)
    })?;
    baseline.write(&path).map_err(|error| unusable(error, &gate, &arguments.results))?;
    let counts = baseline.outcomes.values().map(|task| task.counts());
    let (passes, attempts) = counts.fold((0u64, 0u64), |(passes, attempts), counts| {
        (passes + u64::from(counts.passes), attempts + u64::from(counts.attempts))
    });
    let instead = before.map_or_else(String::new, |before| format!(", in place of run {}", before.run));
    print(&format!(
        "run {name} is the baseline of {}{instead}: {passes} of {attempts} attempts passed, at {} tasks\n{}\n",
        gate.gate,
        baseline.outcomes.len(),
        path.display()
    ))?;
    Ok(Exit::Success)
}
