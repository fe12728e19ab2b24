//! Requests in, events out; and their records.

#![allow(clippy::unwrap_used, reason = "all of this is test code, helpers included")]

mod api;
mod captures;
mod client;
mod ledger_child;
mod ledger_contents;
mod ledger_crash;
mod ledger_deletion;
mod ledger_files;
mod ledger_learning;
mod ledger_properties;
mod ledger_scenes;
mod ledger_stored;
mod properties;
mod recording;
mod scenes;
mod tracker;
