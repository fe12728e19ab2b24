//! Containers of a real engine, started for each test. Needs root and `dockerd`; the feature `engine-tests` says that
//! both are there.

#![allow(clippy::unwrap_used)]

mod conformance;
mod engine;
mod episode;
mod grading;
mod hostile;
mod image;
mod images;
mod losing;
mod sandbox;
mod sweeping;
