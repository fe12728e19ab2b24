//! User-provided environments: real programs in real sandboxes, and real servers.

#![allow(clippy::unwrap_used)]

mod conformance;
mod faults;
mod over_http;
mod over_openenv;
mod over_tls;
mod sockets;
mod support;
