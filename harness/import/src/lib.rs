//! Importers: suites that others defined, as suites of ClawRL.
//!
//! [`import_harbor`] reads Harbor task folders, and the datasets and registries that name them;
//! [`import_terminal_bench`] reads tasks of Terminal-Bench 0.x, [`import_jsonl`] questions with answers, [`import_bfcl`]
//! rows of BFCL, [`import_swe`] those of SWE-bench and its like; [`import_reasoning_gym`] has data sets made, and
//! [`import_swe_synth`] makes tasks from the source of Python packages, and [`import_miniwob`] has the pages of one. Each writes one suite folder, which `clawrl plan`,
//! `validate` and `run` read like any other. The page `harness/docs/guides/import.md` says what becomes of each key.
//!
//! I1. What cannot be represented is refused by name, at its line, with what to do; nothing is dropped in silence.
//! I2. The suite appears whole or not at all, and it loads. I3. An agent finds neither the reference solution nor
//! the tests. I4. No secret of the importing environment is written. I5. Nothing is downloaded but the
//! package that is named, and nothing is run but the Python that is to make a data set or to read that source.
//!
//! Errors: [`clawrl_config::ConfigError`], every problem of every task at once. Nothing to cancel.

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
