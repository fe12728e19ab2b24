//! The terminal environment with real shells in real sandboxes.

#![allow(clippy::unwrap_used)]

mod conformance;
mod disk;
mod episode;
mod launching;
mod support;
mod verifier;
