//! Blocking work on the runtime's pool.

use std::sync::Arc;

use clawrl_core::{Boundary, Fault};

use crate::PutFile;
use crate::safe_dir::{Owner, SafeDir};

/// Runs blocking work on the runtime's pool; a panic in it becomes a harness fault.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::permanent(Boundary::Harness, "panic", error.to_string()))
}

pub(crate) async fn put_files(
    workspace: Arc<SafeDir>,
    files: Vec<PutFile>,
    owner: Option<Owner>,
) -> Result<(), Fault> {
    blocking(move || {
        for file in &files {
            file.write_to(&workspace, file.mode, owner).map_err(|error| {
                Fault::permanent(Boundary::Env, "put-file", format!("{}: {error}", file.path))
            })?;
        }
        Ok(())
    })
    .await?
}
