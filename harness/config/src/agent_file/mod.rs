//! Agent files: a program that plays attempts, as written and as a plan has it.
//!
//! The way is that of policy files: as written, with the place of every value ([`crate::agent_schema`] describes it to
//! editors); checked, with every mistake found at once ([`load_agent`]), to an [`AgentFilePlan`]. What answers as its model is named in
//! the words of `--policy`, which whoever reads the file understands.

mod check;
mod file;

pub use check::{AgentFilePlan, load_agent};
pub(crate) use file::AgentFile;
