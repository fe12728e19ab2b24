//! Settings of an engine.

use std::time::Duration;

use crate::model::Dtype;
use crate::turns::Turns;

/// Settings of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Maximum number of sequences that run at the same time.
    pub max_batch: usize,
    /// Maximum number of prompt rows in a step, beside one row for each running sequence. Longer prompts are computed in
    /// chunks, so that they do not delay other sequences. The same limit holds for the rows that are scored between two
    /// steps.
    pub max_prefill_rows: usize,
    /// Memory limit for keys and values. Prefixes are cached for reuse in the part that running sequences do not need.
    pub kv_budget_bytes: u64,
    /// Maximum number of requests that wait in the engine; further ones wait in [`super::EngineHandle::generate`].
    pub queue: usize,
    /// Threads for one libtorch operation, where it is large enough. The Rust kernels run on the engine's thread.
    pub threads: usize,
    /// Whether the result of a request is bit-identical regardless of what else runs. This is slower when few sequences
    /// run, because every multiplication has a fixed number of rows.
    pub reproducible: bool,
    /// Whether prompts with the same prefix share its keys and values.
    pub share_prefixes: bool,
    /// Type to which weights are rounded before use. The arithmetic stays in fp32: keys, values and rows are fp32.
    pub dtype: Dtype,
    /// Turns with a learner that shares the cores.
    pub turns: Turns,
    /// Called on the engine's thread with the duration of each piece of work.
    pub observer: Option<EngineObserver>,
}

/// Kinds of work of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineWork {
    /// A step that contains prompt rows, or a chunk of rows that are scored.
    Prefill,
    /// A step with one row of each running sequence and no prompt rows.
    Decode,
    /// New weights came into use.
    Swap,
}

/// Callback for the engine's work. It must not block.
#[derive(Debug, Clone, Copy)]
pub struct EngineObserver(pub fn(EngineWork, Duration));

/// Observers are equal if they are the same function.
impl PartialEq for EngineObserver {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for EngineObserver {}

impl Default for EngineConfig {
    /// For a small model on one core.
    fn default() -> Self {
        Self {
            max_batch: 128,
            max_prefill_rows: 256,
            kv_budget_bytes: 1 << 30,
            queue: 512,
            threads: 1,
            reproducible: false,
            share_prefixes: true,
            dtype: Dtype::Fp32,
            turns: Turns::default(),
            observer: None,
        }
    }
}

impl EngineConfig {
    /// Raises every count to at least 1.
    pub(super) fn at_least_one(self) -> Self {
        Self {
            max_batch: self.max_batch.max(1),
            max_prefill_rows: self.max_prefill_rows.max(1),
            queue: self.queue.max(1),
            threads: self.threads.max(1),
            ..self
        }
    }
}
