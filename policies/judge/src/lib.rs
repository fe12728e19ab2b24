//! Judges: models that vote on whether an answer meets a rubric, and on what turns were worth; rules about turns.
//!
//! I1. A vote that is cut, cannot be read or does not come is missing; it is never counted as a verdict. I2. The same
//! question has the same seeds. I3. What the agent wrote is shown as text between marks that it does not contain, and the
//! special tokens of chat templates in it are broken up.
//!
//! Cancellation: dropping the future of a question drops the requests of its votes.

mod model;
mod patience;
mod prompt;
mod rules;
mod verdict;

pub use model::ModelJudge;
pub use patience::{PAUSE, PatientJudge};
pub use rules::{MOST_HINTS, RuleJudge, RulePlace, TurnRule};
