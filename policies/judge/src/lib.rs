//! Judges: models and rules that vote on answers and on turns.
//!
//! I1. A vote that is cut, unreadable or late is missing; it never counts as a value. I2. Equal
//! requests have equal seeds. I3. Text of the agent is quoted between marks that it does not contain, and special tokens
//! of chat templates in it are broken up.
//!
//! Cancellation: dropping the future of a request drops the requests of its votes.

mod model;
mod pausing;
mod prompt;
mod reply;
mod rules;

pub use model::ModelJudge;
pub use pausing::{PAUSE, PausingJudge};
pub use rules::{MAX_HINTS, RuleJudge, RuleTarget, TurnRule};
