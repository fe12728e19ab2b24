//! The tool `python`: an interpreter that lives as long as the episode.
//!
//! `driver.py` runs in the sandbox and answers over its pipes; it is passed on the command line, so that every kind of
//! sandbox can run it, and nothing inside can change it. Its output is controlled by the agent: an invalid reply ends
//! the interpreter, and the content is only shown to the agent, never trusted.

mod interpreter;
mod message;
mod tool;

pub(crate) use interpreter::{Interpreter, StartError};
pub(crate) use tool::Python;
