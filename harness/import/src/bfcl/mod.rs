//! Single-turn rows of the Berkeley Function Calling Leaderboard, version 4: functions become tools, and possible
//! answers become checks.
//!
//! B1. Verdicts equal those of BFCL's own AST checker, except for the differences that `harness/docs/guides/import.md` lists;
//! `ci/golden/bfcl.py` compares them. B2. The oracle's calls match the tools' schemas.
//!
//! Source: data files and `ast_checker.py` of PyPI `bfcl-eval` 2026.3.23.

mod category;
mod expected;
mod options;
mod rows;
mod task;
mod tool;

pub use options::BfclOptions;
pub(crate) use rows::import_rows;
