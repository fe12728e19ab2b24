//! An environment that is a program in a sandbox.

mod client;
mod ready_program;

pub(crate) use client::too_large;
pub(crate) use ready_program::{ProgramKey, ReadyProgram, make};
