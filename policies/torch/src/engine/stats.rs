//! Counters of an engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Counters since the start of the engine, and its present state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Number of steps.
    pub steps: u64,
    /// Tokens sampled.
    pub sampled_tokens: u64,
    /// Prompt rows computed.
    pub prompt_rows: u64,
    /// Prompt rows taken from the prefix cache.
    pub reused_prompt_rows: u64,
    /// Rows computed to score tokens.
    pub scored_rows: u64,
    /// Requests that ended with a reply.
    pub finished: u64,
    /// Requests that their caller cancelled.
    pub cancelled: u64,
    /// Versions installed after the first.
    pub swaps: u64,
    /// Version in use.
    pub version: u64,
    /// Time spent in steps.
    pub busy: Duration,
    /// Sequences that run.
    pub running: usize,
    /// Requests that wait in the engine.
    pub waiting: usize,
    /// Bytes of live keys and values.
    pub kv_bytes: u64,
    /// Bytes of cached prefixes. Without running sequences these are all live bytes.
    pub retained_bytes: u64,
}

/// Counters shared between the engine, which writes them, and the handles.
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
