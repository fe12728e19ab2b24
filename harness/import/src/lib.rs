//! Importers: task sets of other projects, as suites of ClawRL.
//!
//! [`import_harbor`] reads Harbor task folders, datasets and registries; [`import_terminal_bench`] reads tasks of
//! Terminal-Bench 0.x, [`import_jsonl`] questions with answers, [`import_bfcl`] rows of BFCL, and [`import_swe`] rows
//! of SWE-bench and similar data sets. [`import_reasoning_gym`] and [`import_miniwob`] use a Python package;
//! [`import_swe_synth`] generates tasks from the source of Python packages. Each writes one suite folder, which `clawrl
//! plan`, `validate` and `run` read like any other. The page `harness/docs/guides/import.md` says how each key is imported.
//!
//! I1. A key that cannot be represented is refused by name, at its line, with advice; nothing is dropped silently. I2. The
//! suite is written whole or not at all, and it loads. I3. An agent finds neither the reference solution nor the tests.
//! I4. No secret of the importing environment is written. I5. Only the named package is downloaded, and only the Python
//! that generates a data set or reads that source is run.
//!
//! Errors: [`clawrl_config::ConfigError`], with all problems of all tasks at once. There is nothing to cancel.

mod bfcl;
mod compose;
mod dockerfile;
mod document;
mod draft;
mod findings;
mod harbor;
mod image;
mod import;
mod keep_alive;
mod keys;
mod miniwob;
mod options;
mod oracle;
mod outside;
mod parquet_rows;
mod python;
mod questions;
mod reasoning_gym;
mod rootfs;
mod shell_text;
mod swe;
mod swe_synth;
mod terminal_bench;
mod tree;
mod variables;
mod write;

pub use bfcl::BfclOptions;
pub use import::{
    import_bfcl, import_harbor, import_jsonl, import_miniwob, import_reasoning_gym, import_swe,
    import_swe_synth, import_terminal_bench, key_tables, list_reasoning_gym,
};
pub use miniwob::{MINIWOB_VERSION, MiniwobOptions, MiniwobSource};
pub use options::{ImportOptions, ImportSandbox, Imported};
pub use questions::{JsonlOptions, RowChoice};
pub use reasoning_gym::{ReasoningGymDataset, ReasoningGymListing, ReasoningGymOptions};
pub use rootfs::RootfsChoice;
pub use swe::SweOptions;
pub use swe_synth::{SynthOptions, SynthSource, TestEnd, TestFile, TestJob, TestRun, TestRunner};
