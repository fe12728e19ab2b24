//! Reports of a chat server to the program that embeds it.

use std::io;
use std::path::Path;

use clawrl_config::ChatPlan;
use clawrl_remote::Listed;

use super::error::ServeError;
use super::openclaw::SetUp;
use super::upstream::UpstreamState;

/// Receives the events of a server.
pub trait ServeEvents: Send + Sync {
    /// The server listens.
    ///
    /// # Errors
    /// The report cannot be written; the server ends.
    fn listens(&self, listening: &Listening<'_>) -> io::Result<()>;

    /// The set-up for OpenClaw was written, or could not be. `is_upstream`: the model is behind another server.
    fn openclaw(&self, set_up: &SetUp, is_upstream: bool);

    /// The state of the upstream server has changed.
    fn upstream_state(&self, server: UpstreamServer<'_>, standing: &UpstreamState);

    /// The upstream server has listed its models.
    fn upstream_models(&self, server: UpstreamServer<'_>, listed: &Listed);

    /// A new version is in use, or learning has paused itself. `line` is one line of text.
    fn learned(&self, line: &str);

    /// A part failed; the server continues.
    fn failed(&self, error: ServeError);

    /// The server accepts no more requests and finishes the answers in progress.
    fn ends(&self);
}

/// A server that listens.
#[derive(Debug)]
pub struct Listening<'a> {
    /// Base URL of its API.
    pub base_url: &'a str,
    /// Folder of the keys and the ledger.
    pub data: &'a Path,
    /// The first key.
    pub key: &'a str,
    /// Whether this start created the key.
    pub is_new_key: bool,
    /// How it learns, or why it does not.
    pub learning: Result<&'a ChatPlan, &'static str>,
    /// The upstream server, if the model runs on one.
    pub upstream: Option<UpstreamServer<'a>>,
}

/// An upstream server, which runs the model.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamServer<'a> {
    /// Its base URL.
    pub base_url: &'a str,
    /// The model's name there.
    pub model: &'a str,
}
