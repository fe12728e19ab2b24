//! What an import of BFCL is asked to do.

use std::path::PathBuf;

use crate::questions::RowChoice;

/// What to import from BFCL's data, and how.
#[derive(Debug, Clone)]
pub struct BfclOptions {
    /// BFCL's data folder, or one of its files.
    pub data: PathBuf,
    /// Categories by name; none for that of the file.
    pub categories: Vec<String>,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// Which rows, of each category.
    pub choice: RowChoice,
    /// Whether rows that cannot be represented are left out, and listed, instead of refusing all.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt, if its oracle does not need more.
    pub max_turns: u32,
}
