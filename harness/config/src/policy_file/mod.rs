//! Policy files: a model behind a server, as written and as a plan has it.
//!
//! The way is that of suites: as written, with the place of every value ([`crate::policy_schema`] describes it to
//! editors); checked, with every mistake found at once ([`load_policy`]), to a [`clawrl_core::RemoteSpec`]. No file
//! holds a key, and what looks like one is refused.

mod check;
mod file;

pub use check::load_policy;
pub(crate) use file::PolicyFile;
