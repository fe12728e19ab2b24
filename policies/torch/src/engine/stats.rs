//! Counters of an engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What an engine has done since it started, and what it does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Steps.
    pub steps: u64,
    /// Tokens sampled.
    pub sampled_tokens: u64,
    /// Prompt rows computed.
    pub prompt_rows: u64,
    /// Prompt rows that did not have to be computed.
    pub reused_prompt_rows: u64,
    /// Rows computed to score tokens.
    pub scored_rows: u64,
    /// Requests that ended with a reply.
    pub finished: u64,
    /// Requests whose caller went away.
    pub cancelled: u64,
    /// Versions taken into use after the first.
    pub swaps: u64,
    /// Version in use.
    pub version: u64,
    /// Time spent in steps.
    pub busy: Duration,
    /// Sequences that run.
    pub running: usize,
    /// Requests that wait in the engine.
    pub waiting: usize,
    /// Bytes of keys and values that live.
    pub kv_bytes: u64,
    /// Bytes of beginnings kept for later requests. Without running sequences this is all that lives.
    pub retained_bytes: u64,
}

/// Written by the engine once in a while, read by anyone.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedStats(Arc<Mutex<EngineStats>>);

impl SharedStats {
    pub(super) fn write(&self, stats: &EngineStats) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *stats;
    }

    pub(super) fn read(&self) -> EngineStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
