//! The software engineering environment with real repositories and real test runs, in real sandboxes.

#![allow(clippy::unwrap_used)]

mod attacks;
mod conformance;
mod episode;
mod submissions;
mod support;
mod test_runs;
