//! The sandbox crate against real kernels: files, trees, processes.

#![allow(clippy::unwrap_used)]

mod containers;
mod copies;
mod exec;
mod host_folders;
mod hostile;
mod image;
mod network;
mod packed;
mod program;
mod safe_dir;
mod sandbox;
mod shell_fixture;
mod shell_marks;
mod shell_outcomes;
mod shell_output;
mod shell_programs;
mod shell_prompts;
mod shell_replaced;
mod shell_sandboxed;
mod support;
mod traps;
mod tree;
