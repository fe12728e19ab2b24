//! GUI environments with a real browser. The feature `browser-tests` says that Chromium and its driver are there.

#![allow(clippy::unwrap_used)]

mod acting;
mod bare;
mod conformance;
mod endpoints;
mod episode;
mod isolation;
mod loading;
mod observing;
mod pictures;
mod support;
mod waiting;
