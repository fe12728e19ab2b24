//! Options of an import from BFCL.

use std::path::PathBuf;

use crate::questions::RowChoice;

/// Which rows of BFCL to import, and how.
#[derive(Debug, Clone)]
pub struct BfclOptions {
    /// BFCL's data folder, or one of its files.
    pub data: PathBuf,
    /// Names of categories; if empty, the category of the file.
    pub categories: Vec<String>,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// Which rows of each category.
    pub choice: RowChoice,
    /// Whether rows that cannot be represented are skipped and listed; otherwise they refuse the import.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt; more if the oracle needs more.
    pub max_turns: u32,
}
