//! The recorder: one thread that owns the ledger and the linking of turns, what it is told, and what it says.

mod clock;
mod handle;
mod incoming;
mod job;
mod live;
mod prepared;
mod reader;
mod settings;
mod thread;
mod writing;

pub use clawrl_redact::{RedactionRule, RuleError};
pub use clock::{Clock, SystemClock};
pub use handle::RecorderHandle;
pub use incoming::{
    Admitted, Exactness, FeedbackId, FeedbackSource, FeedbackTarget, NewAnswer, NewChoice, NewFeedback,
    NewRequest, SamplingUsed, VersionSegment,
};
pub use live::{LedgerEvent, Live};
pub use reader::Export;
pub use settings::RecorderSettings;
pub use thread::Recorder;

pub(crate) use writing::{Desk, Known};
