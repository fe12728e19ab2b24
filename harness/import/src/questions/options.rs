//! Options of an import of rows.

use std::path::PathBuf;

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowChoice {
    /// All rows.
    #[default]
    All,
    /// The first rows.
    First(usize),
    /// A random sample, in the order of the files.
    Some {
        /// Number of rows.
        count: usize,
        /// Seed of the sample.
        seed: u64,
    },
}

/// Which JSONL files to import, and how.
#[derive(Debug, Clone)]
pub struct JsonlOptions {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// Dotted key of the question; `None` to find it from the rows.
    pub question_key: Option<String>,
    /// Dotted key of the answer; `None` to find it from the rows.
    pub answer_key: Option<String>,
    /// Dotted key of the row's id; `None` to find it, or else to use the line number.
    pub id_key: Option<String>,
    /// Which rows.
    pub choice: RowChoice,
    /// Largest error of a numeric answer that passes; `None` to derive it from the notation of the answer.
    pub tolerance: Option<f64>,
    /// Whether rows that cannot be represented are skipped and listed; otherwise they refuse the import.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt.
    pub max_turns: u32,
}
