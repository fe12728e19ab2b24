//! Errors of libtorch and of model files.

use clawrl_torch_shim::{AdamwError, GpuError};
use tch::TchError;

use crate::runtime::RuntimeError;

/// Why something on libtorch failed.
#[derive(Debug, thiserror::Error)]
pub enum TorchError {
    /// libtorch itself refused or failed: shapes, memory, a device.
    #[error("libtorch: {0}")]
    Backend(#[from] TchError),
    /// An update could not be made.
    #[error(transparent)]
    Adamw(#[from] AdamwError),
    /// Something that only a GPU does.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The libtorch of this process does not do.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A checkpoint could not be written or read; the text says which and why.
    #[error("{0}")]
    Checkpoint(String),
    /// A model's files or numbers do not fit; the text says which and where.
    #[error("{0}")]
    Model(String),
}
