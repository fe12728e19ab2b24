//! GUI environments with a real browser: Chromium and its driver have to be there.

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
