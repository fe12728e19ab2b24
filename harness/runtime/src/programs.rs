//! Lends the machine's spawner to policies that start programs. The spawner is connected only once a run has its runtime.
//!
//! I1. The loan ends with the runtime, because the spawner ends with its last client. I2. A run is over when its programs have
//! ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{Live, LiveCount};

/// Time limit for programs to end after their attempts.
const LAST_PROGRAMS: Duration = Duration::from_secs(40);

/// A slot for the spawner: given to a policy before there is a runtime, and filled when there is one.
#[derive(Clone, Default)]
pub struct Programs {
    spawner: Arc<Mutex<Option<SpawnerClient>>>,
    count: Arc<LiveCount>,
}

impl Programs {
    /// The spawner, while it is lent.
    pub(crate) fn spawner(&self) -> Option<SpawnerClient> {
        self.spawner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers a program until the returned guard is dropped.
    pub(crate) fn begin(&self) -> Live {
        self.count.begin()
    }

    pub(super) fn lend(&self, spawner: Option<SpawnerClient>) {
        *self.spawner.lock().unwrap_or_else(PoisonError::into_inner) = spawner;
    }

    /// Waits for all programs (I2). Returns how many are left at the time limit.
    pub(super) async fn ended(&self) -> u32 {
        self.count.all_ended(LAST_PROGRAMS).await
    }
}
