//! Where programs of policies are started: by the machine's spawner, which listens only once a run has its runtime.
//!
//! I1. Nothing is lent any more when the runtime is gone: the spawner ends with its last client. I2. A run is over when its
//! programs have ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{Live, LiveCount};

/// How long programs are waited for that were told that their attempts are over.
const LAST_PROGRAMS: Duration = Duration::from_secs(40);

/// Given to a policy before there is a runtime, and filled when there is one.
#[derive(Clone, Default)]
pub struct Programs {
    spawner: Arc<Mutex<Option<SpawnerClient>>>,
    count: Arc<LiveCount>,
}

impl Programs {
    /// The spawner, while it is there.
    pub(crate) fn spawner(&self) -> Option<SpawnerClient> {
        self.spawner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A program begins; it has ended when this is dropped.
    pub(crate) fn begin(&self) -> Live {
        self.count.begin()
    }

    pub(super) fn lend(&self, spawner: Option<SpawnerClient>) {
        *self.spawner.lock().unwrap_or_else(PoisonError::into_inner) = spawner;
    }

    /// Waits for the last of them (I2); how many are left at the limit.
    pub(super) async fn ended(&self) -> u32 {
        self.count.all_ended(LAST_PROGRAMS).await
    }
}
