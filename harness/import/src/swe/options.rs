//! What an import of SWE-bench's rows is asked to do.

use std::path::PathBuf;

use crate::questions::RowChoice;

/// What to import of SWE-bench and its like, and how.
#[derive(Debug, Clone)]
pub struct SweOptions {
    /// A file of rows, Parquet, JSON or JSONL, or the folder of a task repository.
    pub source: PathBuf,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// Which rows, of those that `tasks` and `filter` leave.
    pub choice: RowChoice,
    /// Instances by their ids; all of them if empty.
    pub tasks: Vec<String>,
    /// Only instances whose id has this in it.
    pub filter: Option<String>,
    /// Name of the images, with `{instance_id}` or `{image_id}`; what the rows say if there is none.
    pub image: Option<String>,
    /// Folder of the repository in the images.
    pub workdir: Option<String>,
    /// Line of bash before the first command and before the tests; an empty one is none.
    pub activate: Option<String>,
    /// Whether what was said about an issue is part of the instruction.
    pub hints: bool,
    /// Whether rows that cannot be represented are left out, and listed, instead of refusing all.
    pub skip_unrepresentable: bool,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt.
    pub max_turns: u32,
}
