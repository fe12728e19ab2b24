//! How an engine is set up.

use std::time::Duration;

use crate::model::Dtype;
use crate::turns::Turns;

/// Settings of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Most sequences that run at the same time.
    pub max_batch: usize,
    /// Most prompt rows that a step computes beside one row for each running sequence: longer prompts are computed in
    /// chunks, so that they do not hold up the others. As many rows are scored between two steps.
    pub max_prefill_rows: usize,
    /// Most memory for keys and values. Beginnings that may be asked for again stay in what the running sequences leave.
    pub kv_budget_bytes: u64,
    /// Most requests that wait in the engine; more wait in [`super::EngineHandle::generate`].
    pub queue: usize,
    /// Threads within one operation of libtorch, where it is large enough. Our own kernels run on the engine's thread.
    pub threads: usize,
    /// Whether a request gets the same bits whatever else runs. Costs time where few sequences run, because every
    /// multiplication has a fixed number of rows.
    pub reproducible: bool,
    /// Whether what was computed for one prompt serves others with the same beginning.
    pub share_prefixes: bool,
    /// Type that weights are rounded to before they are computed with, in fp32 all the same: keys, values and rows are fp32.
    pub dtype: Dtype,
    /// Turns with a learner that shares the cores.
    pub turns: Turns,
    /// Hears what each piece of work took, on the engine's thread.
    pub observer: Option<EngineObserver>,
}

/// What an engine spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineWork {
    /// A step with rows of prompts, beside those of running sequences; or rows that are scored.
    Prefill,
    /// A step with one row of each running sequence alone.
    Decode,
    /// New weights took their place.
    Swap,
}

/// Hears of the engine's work. It must not block.
#[derive(Debug, Clone, Copy)]
pub struct EngineObserver(pub fn(EngineWork, Duration));

/// The same function is the same observer.
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
    /// The same with every count at least 1.
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
