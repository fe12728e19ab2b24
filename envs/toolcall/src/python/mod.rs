//! The tool `python`: an interpreter that lives as long as the episode.
//!
//! `driver.py` runs in the sandbox and answers over its pipes; it is given on the command line, so that every kind of
//! sandbox runs it, and nothing inside can change it. What it says is the agent's word: a reply that does not fit ends the
//! interpreter, and nothing of it is believed but what the agent is shown.

mod interpreter;
mod message;
mod tool;

pub(crate) use interpreter::{Interpreter, StartError};
pub(crate) use tool::Python;
