//! The sandbox crate against real kernels: files, trees, processes.

#![allow(clippy::unwrap_used)]

mod hostile;
mod safe_dir;
mod sandbox;
mod support;
mod traps;
mod tree;
