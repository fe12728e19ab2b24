//! One module per command: arguments and implementation.

pub(crate) mod cassette;
pub(crate) mod chat;
mod chat_key;
pub(crate) mod ci;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod new;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
mod serve_report;
pub(crate) mod show;
pub(crate) mod train;
pub(crate) mod validate;
pub(crate) mod view;

mod removed;
mod run_end;
