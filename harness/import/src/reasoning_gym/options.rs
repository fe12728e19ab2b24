//! What an import of Reasoning Gym is asked to do.

use std::path::PathBuf;

/// A data set, and settings of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct ReasoningGymDataset {
    /// Its name in the library.
    pub name: String,
    /// Settings; a value that is JSON is meant as such, anything else as text.
    pub settings: Vec<(String, String)>,
}

impl ReasoningGymDataset {
    /// From `name` or `name:key=value,key=value`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let pairs = settings.split(',').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("`{pair}` is no setting: write `name:key=value,key=value`")),
        };
        Ok(Self { name: name.to_owned(), settings: pairs.map(pair).collect::<Result<_, _>>()? })
    }
}

/// What to import from Reasoning Gym, and how.
#[derive(Debug, Clone)]
pub struct ReasoningGymOptions {
    /// The sets.
    pub datasets: Vec<ReasoningGymDataset>,
    /// Entries of each.
    pub size: usize,
    /// By which they are made.
    pub seed: u64,
    /// The program that has the library.
    pub python: PathBuf,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt.
    pub max_turns: u32,
}

/// A set of the library, and whether it can be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningGymListing {
    /// Its name.
    pub name: String,
    /// How an answer is compared, or why it cannot be.
    pub words: String,
    /// Whether it can be imported.
    pub imported: bool,
}
