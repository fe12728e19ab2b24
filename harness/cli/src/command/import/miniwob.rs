//! `clawrl import miniwob`: pages of MiniWoB++.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clawrl_import::{Imported, MINIWOB_VERSION, MiniwobOptions, MiniwobSource, import_miniwob};
use clawrl_scripted::solved_families;

use super::arguments::{Target, positive};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Version of the package `miniwob`, from pip's package index.
    #[arg(long, value_name = "VERSION", default_value = MINIWOB_VERSION, conflicts_with = "from")]
    version: String,
    /// Local wheel of the package, or the folder of an unpacked one.
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Import only these pages, such as click-button,enter-text.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    families: Vec<String>,
    /// Import only pages with a solver, which becomes the oracle.
    #[arg(long, conflicts_with = "families")]
    solved: bool,
    /// Episodes of each family.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = positive)]
    episodes: usize,
    #[command(flatten)]
    pub(super) target: Target,
    /// Python that reads the wheel.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Maximum turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    let solved: BTreeSet<String> = solved_families().map(str::to_owned).collect();
    Ok(import_miniwob(&MiniwobOptions {
        source: match &choices.from {
            Some(path) => MiniwobSource::Path(path.clone()),
            None => MiniwobSource::Index(choices.version.clone()),
        },
        families: if choices.solved { solved.iter().cloned().collect() } else { choices.families.clone() },
        episodes: choices.episodes,
        solved,
        output: choices.target.output.clone(),
        python: choices.python.clone(),
        force: choices.target.force,
        max_turns: choices.max_turns,
    })?)
}
