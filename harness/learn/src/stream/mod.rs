//! The asynchronous loop as a pure state machine: which groups may be dispatched, and which make the next batch.
//!
//! [`GroupStream`] receives events (a slot was resolved, an update was made, its parameters act) and decides
//! the next steps: how many groups of the plan are wanted, whether there is a batch to train, whether parameters are to
//! be published. It has no clock, no thread and no I/O; its owner moves the messages.

mod assembly;
mod chooser;
mod config;
mod figures;
mod group_stream;
mod ordered;
mod ranges;
mod roster;
mod streaming;
mod train_batch;
mod weighing;

pub use assembly::MemberResult;
pub use config::{Schedule, StreamConfig};
pub use figures::{BatchStats, Discard, StreamCounts};
pub use group_stream::{FormedBatch, GroupStream, StreamEnd, StreamError, StreamSnapshot};
pub use ranges::{GroupRanges, RangeError};
