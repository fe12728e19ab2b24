//! `clawrl import miniwob`: pages of MiniWoB++.

use std::path::PathBuf;

use clawrl_import::{Imported, MINIWOB_VERSION, MiniwobOptions, MiniwobSource, import_miniwob};
use clawrl_scripted::solved_families;

use super::jsonl::positive;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Version of the package `miniwob`, from the index that pip uses.
    #[arg(long, value_name = "VERSION", default_value = MINIWOB_VERSION, conflicts_with = "from")]
    version: String,
    /// The package where it is there: a wheel, or a folder that one was unpacked into.
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Import only these pages, such as click-button,enter-text.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    families: Vec<String>,
    /// Episodes of each family.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = positive)]
    episodes: usize,
    /// The suite's folder, which is made; the suite is called like it.
    #[arg(long, alias = "out", value_name = "DIR")]
    pub(super) output: PathBuf,
    /// The Python that reads the wheel.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Most turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
    /// Replace a suite that was imported before.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    Ok(import_miniwob(&MiniwobOptions {
        source: match &choices.from {
            Some(path) => MiniwobSource::Path(path.clone()),
            None => MiniwobSource::Index(choices.version.clone()),
        },
        families: choices.families.clone(),
        episodes: choices.episodes,
        solved: solved_families().map(str::to_owned).collect(),
        output: choices.output.clone(),
        python: choices.python.clone(),
        force: choices.force,
        max_turns: choices.max_turns,
    })?)
}
