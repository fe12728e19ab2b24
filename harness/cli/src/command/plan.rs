//! `clawrl plan`: show what a run would do, and run nothing.

use clawrl_config::describe_plan;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::host::open_files;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::plan_request::{PlanArguments, Resolved};
use crate::results::ResultsArguments;

/// Shows what `clawrl run` would do with the same arguments, and runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl plan tasks/terminal-basics --filter 'copy-*' --group-size 8")]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    judge: JudgeArguments,
    #[command(flatten)]
    results: ResultsArguments,
    /// Print the plan's figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let Resolved { suites, options, plan } =
        arguments.plan.resolve(&arguments.judge, &arguments.results.store()?, log)?;
    let summary = describe_plan(&plan, &suites, &options);
    if arguments.json {
        print_json(&summary)?
    } else {
        print(&summary.to_string())?
    }
    Ok(Exit::Success)
}
