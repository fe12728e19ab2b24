//! Agent files: a program that runs attempts, in file form and in plan form.
//!
//! They are read like policy files: the file form keeps the place of every value ([`crate::agent_schema`] describes it to editors);
//! [`load_agent`] reports all mistakes at once and returns an [`AgentFilePlan`]. The program's model is named as in `--policy`; the
//! caller parses that name.

mod check;
mod file;

pub use check::{AgentFilePlan, load_agent};
pub(crate) use file::AgentFile;
