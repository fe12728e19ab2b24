//! The sandbox backends of a run, by kind.

use std::collections::HashMap;
use std::sync::Arc;

use clawrl_core::{Boundary, Fault, SandboxKind};

use crate::SandboxBackend;

/// Shared by the providers of a run: two backends of one kind would hand out the same user ids and control groups.
pub type Backends = HashMap<SandboxKind, Arc<dyn SandboxBackend>>;

/// The backend of a kind.
///
/// # Errors
/// A permanent harness [`Fault`] when the run has no such backend.
pub fn backend_of(backends: &Backends, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
    backends.get(&kind).ok_or_else(|| {
        let message = format!("no backend for `sandbox: {kind:?}` exists in this run");
        Fault::permanent(Boundary::Harness, "no-backend", message)
    })
}

/// Shuts all backends down; returns a message for everything that could not be removed.
pub async fn shut_down(backends: &Backends) -> Vec<String> {
    let mut leftovers = Vec::new();
    for backend in backends.values() {
        leftovers.extend(backend.shutdown().await);
    }
    leftovers
}
