//! Serves an attempt to another program, by the protocol of custom environments (`clawrl env open`).

mod attempt;
mod lines;
mod message;
mod serve;

pub use attempt::ServedAttempt;
pub(crate) use lines::MAX_LINE_BYTES;
pub(crate) use message::{Asked, Refusal, Request, answer, begun, closed, images, read, stepped};
pub use serve::{ServeOutcome, serve};
