//! User-provided environments: a program in a sandbox, an HTTP server, an OpenEnv server.
//!
//! [`CustomProvider`] is the pool. Programs and HTTP servers speak one protocol of four methods, specified in
//! `harness/docs/environments/custom.md`. Whatever they do, an attempt ends with their grade or with a typed fault that
//! says what they did, including a program's standard error.

mod env;
mod grading;
mod http;
mod message;
mod observe;
mod openenv;
mod peer;
mod peer_error;
mod process;
mod provider;
mod tools;

pub use message::PROTOCOL;
pub use provider::{CustomConfig, CustomProvider};
