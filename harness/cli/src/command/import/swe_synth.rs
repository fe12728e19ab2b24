//! `clawrl import swe-synth`: software engineering tasks from the source of Python packages.

use std::path::PathBuf;

use clap::ValueEnum;
use clawrl_import::{Imported, SynthOptions, SynthSource, import_swe_synth};
use clawrl_runtime::TestSandboxes;

use super::arguments::{Target, positive};
use crate::failure::Failure;
use crate::log::Log;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Package from pip's package index; may be repeated.
    #[arg(long = "package", value_name = "NAME==VERSION", value_parser = SynthSource::parse, required_unless_present = "archives")]
    packages: Vec<SynthSource>,
    /// Local source distribution, NAME-VERSION.tar.gz; may be repeated.
    #[arg(long = "sdist", value_name = "FILE")]
    archives: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) target: Target,
    /// Command that runs the tests, in the root of a package.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "PYTHONPATH=src python3 -m unittest discover -v -s tests -t ."
    )]
    test: String,
    /// Parser of its output.
    #[arg(long, value_name = "RUNNER", default_value = "unittest")]
    parser: Parser,
    /// Seed of the order of faults.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Maximum tasks of each package [default: all].
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    limit: Option<usize>,
    /// Python that reads archives and syntax trees.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Maximum turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Parser {
    /// `python3 -m unittest -v`.
    Unittest,
    /// `pytest -rA` or `pytest -v`.
    Pytest,
}

/// Must be called on the main thread, before other threads start.
pub(super) fn run(choices: &Choices, log: &Log) -> Result<Imported, Failure> {
    let archives = choices.archives.iter().cloned().map(SynthSource::Archive);
    let sources = choices.packages.iter().cloned().chain(archives).collect();
    let options = SynthOptions {
        sources,
        output: choices.target.output.clone(),
        python: choices.python.clone(),
        test: choices.test.clone(),
        parser: match choices.parser {
            Parser::Unittest => "unittest".to_owned(),
            Parser::Pytest => "pytest".to_owned(),
        },
        seed: choices.seed,
        limit: choices.limit,
        force: choices.target.force,
        max_turns: choices.max_turns,
    };
    let sandboxes = TestSandboxes::start(log)?;
    let imported = import_swe_synth(&options, &sandboxes, &mut |line| log.note(format_args!("{line}")));
    sandboxes.end(log);
    Ok(imported?)
}
