//! The recorder: one thread that owns the ledger and the linking of turns, and its interface.

mod clock;
mod handle;
mod inputs;
mod job;
mod ledger_event;
mod prepared;
mod reader;
mod settings;
mod thread;
mod write_context;

pub use clawrl_redact::{RedactionRule, RuleError};
pub use clock::{Clock, SystemClock};
pub use handle::RecorderHandle;
pub use inputs::{
    Admitted, Exactness, FeedbackId, FeedbackSource, FeedbackTarget, NewAnswer, NewChoice, NewFeedback,
    NewRequest, SamplingUsed, VersionSegment,
};
pub use ledger_event::{LedgerChange, LedgerEvent};
pub use reader::Export;
pub use settings::RecorderSettings;
pub use thread::Recorder;

pub(crate) use write_context::{LedgerCache, WriteContext};
