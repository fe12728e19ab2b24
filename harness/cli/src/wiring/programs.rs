//! Where programs of policies are started: by the machine's spawner, which listens only once a run has its runtime.
//!
//! I1. Nothing is lent any more when the workplace is gone: the spawner ends with its last client.

use std::sync::{Arc, Mutex, PoisonError};

use clawrl_sandbox::spawner::SpawnerClient;

/// Given to a policy before there is a runtime, and filled when there is one.
#[derive(Clone, Default)]
pub(crate) struct Programs(Arc<Mutex<Option<SpawnerClient>>>);

impl Programs {
    /// The spawner, while it is there.
    pub(crate) fn spawner(&self) -> Option<SpawnerClient> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn lend(&self, spawner: Option<SpawnerClient>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = spawner;
    }
}
