//! `clawrl policy`: creates policies and manages their versions.

use std::path::PathBuf;

use clawrl_core::RunId;
use clawrl_record::aligned;
use clawrl_runtime::parse_run_name;
use clawrl_runtime::training::{InitRequest, ModelSize, PolicyVersion, RollbackOutcome, VersionList};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::program::linked;
use crate::results::ResultsArguments;
use crate::training::Training;

/// Creates policies, lists and compares versions of a trained one, and rolls back.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  clawrl policy init --preset tiny --out my-policy tasks/terminal-basics\n  \
                  clawrl policy versions my-training\n  clawrl policy rollback my-training --to 15"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Init(Init),
    Versions(Versions),
    Rollback(Rollback),
    Diff(Diff),
    Merge(Merge),
}

/// Lists the versions of a trained policy: parents, measurements, and which are stored.
#[derive(Debug, clap::Args)]
pub(crate) struct Versions {
    /// Name of the training.
    #[arg(value_name = "RUN", value_parser = parse_run_name)]
    pub(crate) run: RunId,
    #[command(flatten)]
    /// The results folder.
    pub(crate) results: ResultsArguments,
    /// Print the versions as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Rolls a stopped training back to a stored version, including optimizer state.
///
/// The rollback creates a new version. `clawrl train --resume` continues from there, without the groups that were
/// already used.
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// Name of the training.
    #[arg(value_name = "RUN", value_parser = parse_run_name)]
    pub(crate) run: RunId,
    /// Version to roll back to.
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: u64,
    #[command(flatten)]
    /// The results folder.
    pub(crate) results: ResultsArguments,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compares two stored versions: their measurements, and the distance between their parameters.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// Name of the training.
    #[arg(value_name = "RUN", value_parser = parse_run_name)]
    pub(crate) run: RunId,
    /// First version.
    #[arg(value_name = "VERSION")]
    pub(crate) first: u64,
    /// Second version.
    #[arg(value_name = "VERSION")]
    pub(crate) second: u64,
    #[command(flatten)]
    /// The results folder.
    pub(crate) results: ResultsArguments,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Merges an adapter into its model, in fp32, for programs that cannot serve adapters.
///
/// `clawrl run` and `clawrl train` use adapters directly and do not need this.
#[derive(Debug, clap::Args)]
pub(crate) struct Merge {
    /// Folder of an adapter: a version, such as results/runs/RUN/checkpoints/000050/model, or one saved by PEFT.
    #[arg(value_name = "ADAPTER")]
    pub(crate) adapter: PathBuf,
    /// New or empty folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Creates a policy in the Hugging Face format. Trains its tokenizer on the text of suites and draws its weights from a
/// seed; downloads nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Suites whose text trains the tokenizer: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    pub(crate) suites: Vec<PathBuf>,
    /// Shape of the model.
    #[arg(long, value_name = "PRESET", value_enum)]
    pub(crate) preset: PresetChoice,
    /// New or empty folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Maximum context length in tokens, prompt and reply; chat agents send 20,000 and more [default: 2048].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub(crate) positions: Option<u32>,
}

/// Shape of a new model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PresetChoice {
    /// Half a million parameters: learns short terminal tasks on two CPU cores.
    Tiny,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let training = linked()?;
    match &arguments.verb {
        Verb::Init(init) => run_init(init, training, log),
        Verb::Versions(versions) => run_versions(versions, training, log),
        Verb::Rollback(rollback) => run_rollback(rollback, training, log),
        Verb::Diff(diff) => run_diff(diff, training, log),
        Verb::Merge(merge) => run_merge(merge, training, log),
    }
}

fn run_init(init: &Init, training: &dyn Training, log: &Log) -> Result<Exit, Failure> {
    let PresetChoice::Tiny = init.preset;
    let Init { suites, out, seed, positions, .. } = init;
    let request =
        InitRequest { suites: suites.clone(), out: out.clone(), seed: *seed, positions: *positions };
    let ModelSize { parameters, vocab_size } = training.init_policy(&request, log)?;
    log.note(format_args!("{}: {parameters} parameters, vocabulary of {vocab_size}", out.display()));
    Ok(Exit::Success)
}

fn run_versions(arguments: &Versions, training: &dyn Training, log: &Log) -> Result<Exit, Failure> {
    arguments.results.store()?;
    let VersionList { versions, damaged } =
        training.list_versions(&arguments.run, &arguments.results.dir())?;
    damaged.iter().for_each(|why| log.warn(format_args!("{why}")));
    if arguments.json {
        print_json(&versions)?;
        return Ok(Exit::Success);
    }
    let header = ["version", "follows", "updates", "held-out", "entropy", "kept"];
    let mut rows = vec![header.map(str::to_owned)];
    for version in &versions {
        let follows = match (version.parent, version.instead_of) {
            (Some(parent), None) if version.rejected.is_some() => format!("{parent}, rejected"),
            (Some(parent), Some(given_up)) => format!("{parent}, instead of {given_up}"),
            (Some(parent), None) => parent.to_string(),
            (None, _) => "-".to_owned(),
        };
        let kept = match (version.has_weights, version.has_moments) {
            (true, true) => "weights, moments",
            (true, false) => "weights",
            _ => "-",
        };
        rows.push([
            version.version.to_string(),
            follows,
            version.updates.to_string(),
            percent(version.held_out) + if version.best { ", the best" } else { "" },
            number(version.entropy_nats),
            kept.to_owned(),
        ]);
    }
    print(&aligned(&rows))?;
    let rejected = versions.iter().filter_map(|version| Some((version.version, version.rejected.as_ref()?)));
    for (version, why) in rejected {
        print(&format!("version {version} was rejected: {why}\n"))?;
    }
    Ok(Exit::Success)
}

fn run_rollback(arguments: &Rollback, training: &dyn Training, log: &Log) -> Result<Exit, Failure> {
    arguments.results.store()?;
    let (run, to) = (&arguments.run, arguments.to);
    let outcome = training.roll_back(run, to, &arguments.results.dir(), log)?;
    if arguments.json {
        print_json(&outcome)?;
        return Ok(Exit::Success);
    }
    let RollbackOutcome { version, instead_of, policy, updates_left, .. } = &outcome;
    let mut text = format!(
        "version {version} is what version {to} was; version {instead_of} is given up\npolicy      {}\n",
        policy.display()
    );
    if *updates_left > 0 {
        let folder = arguments.results.repeated();
        text +=
            &format!("to go on    clawrl train --resume {run}{folder} ({updates_left} updates are left)\n");
    }
    print(&text)?;
    Ok(Exit::Success)
}

fn run_diff(arguments: &Diff, training: &dyn Training, log: &Log) -> Result<Exit, Failure> {
    arguments.results.store()?;
    let versions = (arguments.first, arguments.second);
    let difference = training.diff_versions(&arguments.run, versions, &arguments.results.dir(), log)?;
    if arguments.json {
        print_json(&difference)?;
        return Ok(Exit::Success);
    }
    let [first, second] = &difference.versions;
    let row = |name: &str, of: &dyn Fn(&PolicyVersion) -> String| [name.to_owned(), of(first), of(second)];
    let figures = [
        row("version", &|version| version.version.to_string()),
        row("updates", &|version| version.updates.to_string()),
        row("held-out", &|version| percent(version.held_out)),
        row("reward", &|version| number(version.reward)),
        row("entropy, nats", &|version| number(version.entropy_nats)),
        row("tokens a reply", &|version| number(version.reply_tokens)),
    ];
    let parts = difference.parameters.iter();
    let parts: Vec<[String; 2]> =
        parts.map(|(part, distance)| [part.clone(), format!("{:.3} %", 100.0 * distance)]).collect();
    print(&format!("{}\nparameters, distance over norm\n{}", aligned(&figures), aligned(&parts)))?;
    Ok(Exit::Success)
}

fn run_merge(merge: &Merge, training: &dyn Training, log: &Log) -> Result<Exit, Failure> {
    let parameters = training.merge_adapter(&merge.adapter, &merge.out)?;
    log.note(format_args!("{}: {parameters} parameters, in fp32", merge.out.display()));
    Ok(Exit::Success)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}
