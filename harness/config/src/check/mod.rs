//! From a file as written to a suite that makes sense.
//!
//! I1. All that is wrong is found in one pass; a problem never hides another one elsewhere.
//! I2. What cannot be known before values are chosen is tried on a few instances of every template, with
//! the code that makes the real ones.

mod answerable;
mod checker;
mod checks;
mod custom;
mod environment;
mod gui;
mod image;
mod lists;
mod read_only;
mod script;
mod served;
mod settings;
mod step_reward;
mod swe;
mod template;
mod terminal;
mod toolcall;
mod verifier;
mod workspace;

pub(crate) use checker::check;
