//! `clawrl cassette`: records and shows cassettes.

use std::path::{Path, PathBuf};

use clawrl_cassette::Cassette;
use clawrl_core::{PolicySpec, RunId, TaskId};
use clawrl_record::Run;
use clawrl_report::policy_words;
use clawrl_runtime::{origin_of, parse_run_name, replies_of, unreadable, unwritable};
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::redaction;
use crate::results::ResultsArguments;

/// Records model replies in cassettes, which `--policy cassette:FILE` replays without a model.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  clawrl cassette record my-run -o my-run.cassette\n  \
                  clawrl run tasks/terminal-basics --policy cassette:my-run.cassette"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Record(Record),
    Show(Show),
}

/// Writes the requests and replies of a recorded run to one file.
///
/// The requests are computed again from the record. Use the version of `clawrl` that made the run.
#[derive(Debug, clap::Args)]
struct Record {
    /// Name of the run.
    #[arg(value_name = "RUN", value_parser = parse_run_name)]
    run: RunId,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    results: ResultsArguments,
}

/// Summarizes the contents of a cassette.
#[derive(Debug, clap::Args)]
struct Show {
    /// Cassette file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.verb {
        Verb::Record(record) => write(record, log),
        Verb::Show(show) => tell(show),
    }
}

fn write(arguments: &Record, log: &Log) -> Result<Exit, Failure> {
    let found = arguments.results.store()?.run(&arguments.run)?;
    refuse(&found)?;
    let plan = found.plan();
    let lock = found.lock_file()?;
    let mut replies = Vec::new();
    for record in found.trajectories()? {
        let record = record?;
        if record.closes_slot {
            for turn in &record.trajectory.turns {
                redaction::refuse_changed(&plan.run, &lock, &turn.reply)?;
            }
            replies.extend(replies_of(plan, &record));
        }
    }
    if replies.is_empty() {
        let message = format!("run {} has no replies to record", plan.run);
        return Err(Failure::new(Exit::Refused, message));
    }
    let open = found.summary().total.open;
    if open > 0 {
        log.warn(format_args!("{open} slots of run {} are open, and their replies are missing", plan.run));
    }
    let (cassette, _) = Cassette::new(origin_of(plan.run.clone(), &plan.policy, lock.redacted), replies);
    cassette.write(&arguments.out, arguments.force).map_err(|error| unwritable(&error))?;
    print(&format!("{}\n", words(&arguments.out, &cassette)))?;
    Ok(Exit::Success)
}

/// Refuses runs whose record lacks requests, or whose policy cannot be recorded.
fn refuse(found: &Run) -> Result<(), Failure> {
    let run = &found.plan().run;
    let refused = |message: String, help: &str| Err(Failure::with_help(Exit::Refused, message, help));
    if found.is_running() {
        return refused(format!("run {run} is under way"), "wait for its end");
    }
    if matches!(found.plan().policy, PolicySpec::Agent(_)) {
        let message = format!("the record of run {run} does not hold what its programs asked their model");
        return refused(message, "record it as it runs: `clawrl run --record-cassette FILE`");
    }
    if found.train()?.is_some() {
        let message = format!("run {run} is a training, whose policy changed while it acted");
        return refused(message, "record a run of one of its checkpoints: `--policy torch:DIR`");
    }
    Ok(())
}

/// One-line summary of a cassette.
pub(super) fn words(path: &Path, cassette: &Cassette) -> String {
    let origin = cassette.origin();
    format!(
        "{}: {} replies to {} tasks, of run {}, policy {}",
        path.display(),
        cassette.len(),
        cassette.tasks().len(),
        origin.run,
        policy_words(&origin.policy)
    )
}

#[derive(Serialize)]
struct Told<'a> {
    program: &'a str,
    run: &'a RunId,
    policy: &'a PolicySpec,
    redacted: &'a [String],
    sha256: String,
    replies: usize,
    tasks: Vec<TaskReplies<'a>>,
}

#[derive(Serialize)]
struct TaskReplies<'a> {
    task: &'a TaskId,
    replies: usize,
}

fn tell(arguments: &Show) -> Result<Exit, Failure> {
    let (cassette, sha256) = Cassette::read(&arguments.file).map_err(|error| unreadable(&error))?;
    let origin = cassette.origin();
    if arguments.json {
        let of_task = |(task, replies)| TaskReplies { task, replies };
        print_json(&Told {
            program: &origin.program,
            run: &origin.run,
            policy: &origin.policy,
            redacted: &origin.redacted,
            sha256,
            replies: cassette.len(),
            tasks: cassette.tasks().into_iter().map(of_task).collect(),
        })?;
        return Ok(Exit::Success);
    }
    let mut text = format!("{}\n", words(&arguments.file, &cassette));
    text += &format!("recorded by {}\n", origin.program);
    if !origin.redacted.is_empty() {
        text += &format!("without the values of {}\n", origin.redacted.join(", "));
    }
    for (task, replies) in cassette.tasks() {
        text += &format!("{replies:>6}  {task}\n");
    }
    print(&text)?;
    Ok(Exit::Success)
}
