//! Environments that are Rust types of the process that runs them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of an environment that is a Rust type of this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InProcessSpec {
    /// Name under which it is registered.
    pub environment: String,
    /// The data of the task, a JSON object. It may hold the solution, so policies must not see it.
    pub row: Value,
}
