//! Single-turn rows of the Berkeley Function Calling Leaderboard, version 4: functions as tools, and what their calls are
//! to be.
//!
//! B1. A verdict is that of BFCL's own AST checker, but for what `harness/docs/guides/import.md` lists; `ci/golden/bfcl.py`
//! compares them. B2. The oracle's calls fit the tools.
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
