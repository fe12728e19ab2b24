//! Input of the conformance checks.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EnvProvider, TaskSpec, ToolCall};

/// A provider, and calls that make its environments behave as the checks need.
pub struct Case {
    /// Makes a fresh provider; each check has its own.
    pub make_provider: Box<dyn Fn() -> Arc<dyn EnvProvider> + Send + Sync>,
    /// A task of the provider's kind.
    pub task: Arc<TaskSpec>,
    /// Calls of one step that ends soon.
    pub quick_calls: Vec<ToolCall>,
    /// Calls of one step that takes longer than [`Self::patience`] unless it is interrupted, and that
    /// returns nothing before; `None` if there are none. Then the quick calls are interrupted as far as possible.
    pub long_calls: Option<Vec<ToolCall>>,
    /// Calls of one step that ends the episode.
    pub ending_calls: Option<Vec<ToolCall>>,
    /// Whether observations are a function of seed and calls.
    pub deterministic: bool,
    /// Time limit of an operation on a busy machine.
    pub patience: Duration,
    /// Environments leased at once where several are.
    pub at_once: u32,
}
