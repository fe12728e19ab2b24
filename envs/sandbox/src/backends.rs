//! All that starts sandboxes in a run, by kind.

use std::collections::HashMap;
use std::sync::Arc;

use clawrl_core::{Boundary, Fault, SandboxKind};

use crate::SandboxBackend;

/// Shared by the providers of a run: two backends of one kind would give the same user ids and control groups.
pub type Backends = HashMap<SandboxKind, Arc<dyn SandboxBackend>>;

/// What starts sandboxes of a kind.
///
/// # Errors
/// A permanent harness [`Fault`] when none was set up.
pub fn backend_of(backends: &Backends, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
    backends.get(&kind).ok_or_else(|| {
        let message = format!("no backend for `sandbox: {kind:?}` was set up for this run");
        Fault::permanent(Boundary::Harness, "no-backend", message)
    })
}

/// Shuts all of them down; what could not be removed, in words.
pub async fn shut_down(backends: &Backends) -> Vec<String> {
    let mut leftovers = Vec::new();
    for backend in backends.values() {
        leftovers.extend(backend.shutdown().await);
    }
    leftovers
}
