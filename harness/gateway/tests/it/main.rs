//! Requests in, events out; and what is kept of them.

#![allow(clippy::unwrap_used, reason = "all of this is test code, helpers included")]

mod captures;
mod client;
mod ledger_scenes;
mod properties;
mod recording;
mod scenes;
mod told;
