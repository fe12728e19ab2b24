//! What a provider is checked with.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EnvProvider, TaskSpec, ToolCall};

/// A provider and the calls that make its environments do what the checks need.
pub struct Case {
    /// Makes a fresh provider; each check has its own.
    pub make_provider: Box<dyn Fn() -> Arc<dyn EnvProvider> + Send + Sync>,
    /// A task of the provider's kind.
    pub task: Arc<TaskSpec>,
    /// Calls of one step that ends soon.
    pub quick_calls: Vec<ToolCall>,
    /// Calls of one step that takes longer than [`Self::patience`] unless it is interrupted, and that
    /// returns nothing before; `None` where there is no such thing. Then the quick ones are interrupted, as far as they can be.
    pub long_calls: Option<Vec<ToolCall>>,
    /// Calls of one step that ends the episode.
    pub ending_calls: Option<Vec<ToolCall>>,
    /// Whether observations are a function of seed and calls.
    pub deterministic: bool,
    /// What an operation may take on a busy machine without being called late.
    pub patience: Duration,
    /// Environments leased at once where several are.
    pub at_once: u32,
}
