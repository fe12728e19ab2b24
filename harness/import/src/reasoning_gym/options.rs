//! Options of an import of Reasoning Gym.

use std::path::PathBuf;

/// A data set, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ReasoningGymDataset {
    /// Its name in the library.
    pub name: String,
    /// Settings; a value that is valid JSON is passed as such, anything else as text.
    pub settings: Vec<(String, String)>,
}

impl ReasoningGymDataset {
    /// Parses `name` or `name:key=value,key=value`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let pairs = settings.split(',').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("`{pair}` is not a setting: write `name:key=value,key=value`")),
        };
        Ok(Self { name: name.to_owned(), settings: pairs.map(pair).collect::<Result<_, _>>()? })
    }
}

/// Which data sets to import, and how.
#[derive(Debug, Clone)]
pub struct ReasoningGymOptions {
    /// The data sets.
    pub datasets: Vec<ReasoningGymDataset>,
    /// Entries of each data set.
    pub size: usize,
    /// Seed of the entries.
    pub seed: u64,
    /// The Python that has the library.
    pub python: PathBuf,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt.
    pub max_turns: u32,
}

/// A data set of the library, and whether it can be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningGymListing {
    /// Its name.
    pub name: String,
    /// How an answer is compared, or why it cannot be.
    pub words: String,
    /// Whether it can be imported.
    pub imported: bool,
}
