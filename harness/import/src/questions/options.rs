//! What an import of rows is asked to do.

use std::path::PathBuf;

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowChoice {
    /// All of them.
    #[default]
    All,
    /// The first ones.
    First(usize),
    /// Some, drawn by a seed, in the order of the files.
    Some {
        /// How many.
        count: usize,
        /// By which they are drawn.
        seed: u64,
    },
}

/// What to import from JSONL files, and how.
#[derive(Debug, Clone)]
pub struct JsonlOptions {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// Key of the question, dotted; found by looking at the rows if there is none.
    pub question_key: Option<String>,
    /// Key of the answer, dotted.
    pub answer_key: Option<String>,
    /// Key of the row's id, dotted; the line's number where there is none.
    pub id_key: Option<String>,
    /// Which rows.
    pub choice: RowChoice,
    /// Largest difference of a numeric answer that passes; by how the answer is written if there is none.
    pub tolerance: Option<f64>,
    /// Whether rows that cannot be represented are left out, and listed, instead of refusing all.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt.
    pub max_turns: u32,
}
