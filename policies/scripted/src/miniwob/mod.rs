//! Solves pages of MiniWoB++ from what is seen of them, as a policy would have to.
//!
//! I1. The next action is a function of the family, of what is seen now and was seen first, of what was said before and
//! of the turn. I2. A family that is not known, and a page that is not understood, are submitted as they are.
//!
//! Left out are families that want a clock, a picture or more of English than a table of words, and those whose reward
//! grows with how near a click was.
//!
//! A family is called like its page: `click-button` for `/miniwob/click-button.html`.
//!
//! Source: the pages of the Python package `miniwob` 1.1.0.

mod choose;
mod draw;
mod enter;
mod families;
mod find;
mod mail;
mod press;
mod sight;
mod slide;
mod social;

pub use families::solved_families;
pub(crate) use families::{History, next_line};
