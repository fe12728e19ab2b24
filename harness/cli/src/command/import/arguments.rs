//! Arguments that several importers share.

use std::path::PathBuf;

use clawrl_import::RowChoice;

/// Where the suite goes.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Folder of the new suite, which is created; its name becomes the suite's name.
    #[arg(long, alias = "out", value_name = "DIR")]
    pub(super) output: PathBuf,
    /// Replace a suite that an earlier import wrote.
    #[arg(long)]
    pub(super) force: bool,
}

/// Which rows of a data set become tasks.
#[derive(Debug, clap::Args)]
pub(super) struct Rows {
    /// Import only the first COUNT rows (of each category, for BFCL).
    #[arg(long, value_name = "COUNT", conflicts_with = "sample", value_parser = positive)]
    limit: Option<usize>,
    /// Import only COUNT rows (of each category, for BFCL), drawn at random.
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    sample: Option<usize>,
    /// Seed of --sample.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Skip and list rows that cannot be represented, instead of refusing the whole import.
    #[arg(long)]
    pub(super) skip_unrepresentable: bool,
}

impl Rows {
    pub(super) fn choice(&self) -> RowChoice {
        match (self.limit, self.sample) {
            (Some(count), _) => RowChoice::First(count),
            (None, Some(count)) => RowChoice::Some { count, seed: self.seed },
            (None, None) => RowChoice::All,
        }
    }
}

/// Parses a count of at least 1.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}
