//! Containers of a real engine, started for each test. Needs root and `dockerd`; `repositories` needs the base image besides.

#![allow(clippy::unwrap_used)]

mod conformance;
mod elsewhere;
mod engine;
mod episode;
mod grading;
mod hostile;
mod image;
mod image_gc;
mod images;
mod placement;
mod programs;
mod registry;
mod repositories;
mod restarts;
mod sandbox;
mod sweeping;
mod tls;
