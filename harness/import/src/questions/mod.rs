//! Questions with answers: rows of JSONL files and of generated data sets, as tasks with a `python` tool.

mod answer;
mod chosen;
mod jsonl;
mod keys;
mod lines;
mod options;
mod suite;

pub(crate) use chosen::RowSelector;
pub(crate) use jsonl::import_rows;
pub(crate) use keys::{BadRow, conversation};
pub(crate) use lines::Lines;
pub use options::{JsonlOptions, RowChoice};
pub(crate) use suite::{Family, Grading, Question, questions_suite};
