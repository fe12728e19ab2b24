//! Checks of the answer, of the calls and of the stores of an episode.
//!
//! All of it is in this process, where the agent cannot reach; but the answer is the agent's text. C1. Whatever it is, a check
//! takes time and memory in proportion to `answer::ANSWER_BYTES` at most, and does not panic. C2. No answer passes no check. C3. A
//! check that cannot be evaluated, such as a regular expression that does not compile, is a fault. C4. A message is one line
//! of at most 200 characters without control characters.
//!
//! Meaning of the kinds, where their names leave it open:
//! - `matches`: `^` and `$` are the ends of the answer unless `(?m)` is set.
//! - `normalised` keeps a sign or a point before a digit, and a text that is nothing but punctuation.
//! - `list`: entries that are numbers compare by value, in a JSON array and elsewhere; empty entries do not count.
//! - `called_in_order` without calls holds.
//!
//! All but `rubric` is pure, with nothing to cancel.

mod answer;
mod expected;
mod list;
mod normal;
mod number;
mod rubric;
mod rules;

pub(crate) use rubric::{Asking, Judged};
pub(crate) use rules::{by_rule, invalid};
