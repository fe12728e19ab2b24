//! Requests in, events out.

#![allow(clippy::unwrap_used, reason = "all of this is test code, helpers included")]

mod captures;
mod client;
mod properties;
mod scenes;
mod told;
