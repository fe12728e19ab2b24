//! Time limits of attempts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time limits of a task's attempts. Every one has its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Waiting for an environment.
    pub lease: Duration,
    /// Reset.
    pub setup: Duration,
    /// One action in the environment.
    pub step: Duration,
    /// One reply of the policy.
    pub policy: Duration,
    /// Grading.
    pub grade: Duration,
    /// Closing.
    pub close: Duration,
    /// From the grant of the lease to the end of the last step.
    pub attempt: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(120),
            setup: Duration::from_secs(60),
            step: Duration::from_secs(30),
            policy: Duration::from_secs(120),
            grade: Duration::from_secs(60),
            close: Duration::from_secs(30),
            attempt: Duration::from_secs(300),
        }
    }
}
