//! The implementations of all kinds of tools except `python`.
//!
//! Tools that are not programs answer at once, in the order of the calls.

mod arithmetic;
mod command;
mod store;
mod table;

pub(crate) use arithmetic::arithmetic;
pub(crate) use command::{CommandCall, command_call, run_command};
pub(crate) use store::Store;
pub(crate) use table::look_up;
