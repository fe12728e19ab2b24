//! Remote policies against a server over HTTP. One binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod anthropic;
mod api_client;
mod bad_servers;
mod images;
mod keep_alives;
mod looking;
mod replies;
mod stage;
mod streaming;
mod stub;
mod heavy {
    mod thousands;
}
