//! The tool-call environment: tools in this process, and real interpreters and commands in real sandboxes.

#![allow(clippy::unwrap_used)]

mod bfcl;
mod commands;
mod conformance;
mod grading;
mod heavy;
mod in_process;
mod python;
mod python_lost;
mod support;
