//! `clawrl import`: suites that others defined, as suites of ours.

mod bfcl;
mod jsonl;
mod miniwob;
mod reasoning_gym;
mod swe;
mod swe_synth;

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use clawrl_config::ConfigError;
use clawrl_import::{
    ImportOptions, ImportSandbox, Imported, RootfsChoice, import_harbor, import_terminal_bench,
};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;

/// Imports tasks that others defined into a new suite.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl import harbor my-task --output tasks/my-tasks")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Harbor task folders (Terminal-Bench 2 and others), datasets and registries.
    #[command(
        after_help = "What becomes of each key: harness/docs/import.md\n\nExample:\n  clawrl import harbor my-task --output tasks/my-tasks"
    )]
    Harbor(Choices),
    /// Single-turn rows of BFCL v4, the Berkeley Function Calling Leaderboard.
    #[command(
        after_help = "Which categories, and how calls are compared: harness/docs/import.md\n\nExample:\n  clawrl import bfcl --data bfcl_eval/data --category simple_python --output tasks/bfcl"
    )]
    Bfcl(bfcl::Choices),
    /// Questions with answers, one JSON object a line (GSM8K, DAPO-Math and the like), for a Python tool.
    #[command(
        after_help = "What becomes of a row: harness/docs/import.md\n\nExample:\n  clawrl import jsonl gsm8k.jsonl --output tasks/gsm8k"
    )]
    Jsonl(jsonl::Choices),
    /// Pages of MiniWoB++ for a browser, which grade themselves.
    #[command(
        after_help = "What becomes of a page: harness/docs/import.md\n\nExample:\n  clawrl import miniwob --families click-button,enter-text --output tasks/miniwob"
    )]
    Miniwob(miniwob::Choices),
    /// Data sets that Reasoning Gym makes, in a Python that has it.
    #[command(
        after_help = "Which sets, and how answers are compared: --list, and harness/docs/import.md\n\nExample:\n  clawrl import reasoning-gym gcd chain_sum:min_terms=3 --size 100 --output tasks/gym"
    )]
    ReasoningGym(reasoning_gym::Choices),
    /// Issues of real repositories: rows of SWE-bench, SWE-Gym, SWE-smith, SWE-rebench, and task repositories.
    #[command(
        after_help = "What becomes of a row: harness/docs/import.md\n\nExample:\n  clawrl import swe verified.jsonl --limit 20 --output tasks/verified"
    )]
    Swe(swe::Choices),
    /// Faults put into Python packages, found by their own tests, which run in sandboxes.
    #[command(
        after_help = "How faults are chosen: harness/docs/import.md\n\nExample:\n  clawrl import swe-synth --package mistune==3.1.4 --limit 60 --output tasks/synth"
    )]
    SweSynth(swe_synth::Choices),
    /// Tasks of Terminal-Bench 0.x.
    #[command(
        after_help = "What becomes of each key: harness/docs/import.md\n\nExample:\n  clawrl import terminal-bench tasks-of-theirs --output tasks/my-tasks"
    )]
    TerminalBench(Choices),
}

#[derive(Debug, clap::Args)]
struct Choices {
    /// A task folder, a folder of task folders; for Harbor also a dataset.toml or a registry.json.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The suite's folder, which is made; the suite is called like it.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Where the tasks run [default: bubblewrap with --rootfs, else container].
    #[arg(long, value_name = "KIND")]
    sandbox: Option<Sandbox>,
    /// An image unpacked into a folder, for sandboxes. Without IMAGE, it stands for the one image of all tasks.
    #[arg(long, value_name = "[IMAGE=]DIR")]
    rootfs: Vec<String>,
    /// Import only tasks of this name.
    #[arg(long = "task", value_name = "NAME")]
    tasks: Vec<String>,
    /// Most turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
    /// Replace a suite that was imported before.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sandbox {
    /// Containers of an engine, which builds or finds the images.
    Container,
    /// Sandboxes on unpacked images; no engine is needed.
    Bubblewrap,
}

type Importer = fn(&ImportOptions) -> Result<Imported, ConfigError>;

/// Runs the command. Prints the path of the suite; omissions go to standard error.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let (choices, import) = match &arguments.what {
        What::Harbor(choices) => (choices, import_harbor as Importer),
        What::TerminalBench(choices) => (choices, import_terminal_bench as Importer),
        What::Bfcl(choices) => return told(&bfcl::run(choices)?, &choices.output, log),
        What::ReasoningGym(choices) => {
            return match (choices.list, &choices.output) {
                (false, Some(output)) => told(&reasoning_gym::run(choices, output)?, output, log),
                _ => reasoning_gym::list(choices),
            };
        }
        What::Miniwob(choices) => return told(&miniwob::run(choices)?, &choices.output, log),
        What::Swe(choices) => return told(&swe::run(choices)?, &choices.output, log),
        What::SweSynth(choices) => return told(&swe_synth::run(choices, log)?, &choices.output, log),
        What::Jsonl(choices) => return told(&jsonl::run(choices)?, &choices.output, log),
    };
    let sandbox = match choices.sandbox {
        Some(Sandbox::Container) => ImportSandbox::Container,
        Some(Sandbox::Bubblewrap) => ImportSandbox::Bubblewrap,
        None if choices.rootfs.is_empty() => ImportSandbox::Container,
        None => ImportSandbox::Bubblewrap,
    };
    let options = ImportOptions {
        paths: choices.paths.clone(),
        output: choices.output.clone(),
        sandbox,
        rootfs: choices.rootfs.iter().map(|choice| RootfsChoice::parse(choice)).collect(),
        tasks: choices.tasks.clone(),
        force: choices.force,
        max_turns: choices.max_turns,
        environment: clawrl_runtime::environment::all(),
    };
    told(&import(&options)?, &choices.output, log)
}

/// Says what was imported.
fn told(imported: &Imported, output: &Path, log: &Log) -> Result<Exit, Failure> {
    for (task, note) in &imported.notes {
        let whose = if task.is_empty() { String::new() } else { format!("{task}: ") };
        log.note(format_args!("{whose}{note}"));
    }
    print(&format!("{}\n", imported.suite.display()))?;
    let count = imported.count;
    let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    log.note(format_args!("{tasks}; try `clawrl validate {}`", output.display()));
    Ok(Exit::Success)
}
