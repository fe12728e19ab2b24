//! GUI environments with a real browser. The feature `browser-tests` says that Chromium and its driver are there.

#![allow(clippy::unwrap_used)]

mod acting;
mod bare;
mod conformance;
mod ended;
mod endpoints;
mod episode;
mod isolation;
mod judging;
mod loading;
mod meeting;
mod observing;
mod pictures;
mod processes;
mod starting;
mod support;
mod traces;
mod waiting;
