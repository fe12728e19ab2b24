//! Checks of an episode's answer, by rules and by a judge.
//!
//! The answer is the agent's text.
//! C1. Whatever it is, a check takes time and memory in proportion to `answer::ANSWER_BYTES` at most, and does not
//! panic.
//! C2. Without an answer every check fails.
//! C3. A check that cannot be evaluated, such as a regular expression that does not compile, is a fault.
//! C4. A message is one line of at most 200 characters without control characters.
//!
//! Details of the kinds:
//! - `matches`: `^` and `$` are the ends of the answer unless `(?m)` is set.
//! - `normalised` keeps a sign or a point before a digit, and a text that consists of punctuation only.
//! - `list`: numeric entries compare by value, in a JSON array and elsewhere; empty entries do not count.
//!
//! All kinds except `rubric` are pure, with nothing to cancel.

mod answer;
mod finding;
mod list;
mod normal;
mod number;
mod rubric;

pub use answer::check_answer;
pub use finding::{Finding, check_invalid};
pub use rubric::{JudgeContext, JudgeReports};
