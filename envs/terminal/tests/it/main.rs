//! The terminal environment with real shells in real sandboxes.

#![allow(clippy::unwrap_used)]

mod conformance;
mod episode;
mod support;
mod verifier;
