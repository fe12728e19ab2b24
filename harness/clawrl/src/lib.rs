//! ClawRL as a library: environments as Rust types, runs of suites, and training.
//!
//! An environment is a type that implements [`env::SingleTurn`], [`env::MultiTurn`] or [`env::ToolEnv`]. A [`Suite`] gives it
//! tasks, or is read from YAML. [`Run`] lets a policy attempt the tasks and records every attempt; [`Trainer`] (feature `torch`)
//! trains a policy on them. Both write their results as the program `clawrl` does, which shows, resumes and compares them.
//!
//! ```no_run
//! use clawrl::{Row, Run, Suite, env::SingleTurn};
//!
//! struct Reverse;
//!
//! impl SingleTurn for Reverse {
//!     fn prompt(&self, row: &Row) -> String { format!("Reverse {}.", row["text"]) }
//!     fn reward(&self, row: &Row, reply: &str) -> f64 { f64::from(reply.trim() == row["answer"]) }
//! }
//!
//! fn main() -> clawrl::Result<()> {
//!     let suite = Suite::jsonl("words.jsonl")?.env(Reverse);
//!     Run::new(suite).policy("openai:qwen3-8b")?.run()?.write_report("report.html")
//! }
//! ```
//!
//! [`Run::run`] and [`Trainer::run`] block, and have to be called on the main thread before the program starts other threads:
//! sandboxes end with the thread that started them.

pub mod env;
mod error;
mod policy;
mod run;
mod suite;
#[cfg(feature = "torch")]
mod trainer;

pub use clawrl_core::{Message, Policy};
pub use clawrl_inprocess::Row;
pub use clawrl_record::RunSummary;
pub use clawrl_runtime::{NoProgress, Progress};
pub use error::{Error, Result};
pub use policy::policy_fn;
pub use run::{Finished, Run};
pub use suite::Suite;
#[cfg(feature = "torch")]
pub use trainer::{TrainPlan, Trained, Trainer};
