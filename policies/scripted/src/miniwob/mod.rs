//! Solves MiniWoB++ pages from their observations, as a policy has to.
//!
//! I1. The next action is a function of the family, of the current and the first observation, of the earlier lines and
//! of the turn. I2. Unknown families and pages that are not understood are submitted unchanged.
//!
//! Not covered: families that need a clock, a picture or more English than a table of words, and those whose reward
//! depends on the distance of a click.
//!
//! A family has the name of its page: `click-button` for `/miniwob/click-button.html`.
//!
//! Source: the pages of the Python package `miniwob` 1.1.0.

mod choose;
mod draw;
mod enter;
mod families;
mod find;
mod mail;
mod press;
mod slide;
mod snapshot;
mod social;

pub use families::solved_families;
pub(crate) use families::{History, next_line};
