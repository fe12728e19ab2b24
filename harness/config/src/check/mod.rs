//! From a suite as written to tasks.
//!
//! A [`Row`] holds an entry of `tasks:` as written, with the defaults laid below; a [`TaskBuilder`] checks it and makes its tasks.
//!
//! I1. All that is wrong is found in one pass; a problem never hides another one elsewhere.
//! I2. A few instances of every template are tried when a suite is checked, with the code that makes the real ones.

mod answerable;
mod builder;
mod calls;
mod checker;
mod checks;
mod custom;
mod environment;
mod expected;
mod gui;
mod image;
mod lists;
mod page_checks;
mod read_only;
mod row;
mod schema;
mod script;
mod served;
mod settings;
mod step_reward;
mod swe;
mod task;
mod template;
mod terminal;
mod toolcall;
mod verifier;
mod workspace;

pub(crate) use builder::TaskBuilder;
pub(crate) use checker::{Checker, check};
pub(crate) use environment::Named;
pub(crate) use read_only::BadFolder;
pub(crate) use row::{Instances, Row};
