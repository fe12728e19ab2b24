//! Whole runs with scripted environments, policies and sinks. Time is tokio's paused clock unless a thread
//! must block.

#![allow(clippy::unwrap_used, reason = "all of this is test code, helpers included")]

mod chaos;
mod demand;
mod dispatch;
mod episode;
mod interrupts;
mod limits;
mod reaping;
mod retries;
mod stage;
