//! Options of an import of SWE-bench rows.

use std::path::PathBuf;

use crate::questions::RowChoice;

/// Which rows to import, and how.
#[derive(Debug, Clone)]
pub struct SweOptions {
    /// A file of rows (Parquet, JSON or JSONL), or the folder of a task repository.
    pub source: PathBuf,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// Which of the rows that `tasks` and `filter` select.
    pub choice: RowChoice,
    /// Ids of instances; all if empty.
    pub tasks: Vec<String>,
    /// Only instances whose id contains this text.
    pub filter: Option<String>,
    /// Name of the images, with `{instance_id}` or `{image_id}`; `None` for the image that a row names.
    pub image: Option<String>,
    /// Folder of the repository in the images.
    pub workdir: Option<String>,
    /// Line of bash before the first command and before the tests; may be empty.
    pub activate: Option<String>,
    /// Whether the instruction includes the comments on the issue.
    pub hints: bool,
    /// Whether rows that cannot be represented are skipped and listed; otherwise they refuse the import.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt.
    pub max_turns: u32,
}
