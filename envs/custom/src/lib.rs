//! Environments that somebody else wrote: a program in a sandbox, a server asked over HTTP, a server of OpenEnv.
//!
//! [`CustomProvider`] is the pool. Programs and HTTP servers speak one protocol, of four methods; the page
//! `harness/docs/environments/custom.md` is its contract. Whatever they do, an attempt ends with a grade of theirs or with a
//! typed fault that says what they did, and what a program wrote to its standard error.

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
