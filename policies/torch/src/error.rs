//! What can go wrong on libtorch.

use tch::TchError;

/// Why something on libtorch failed.
#[derive(Debug, thiserror::Error)]
pub enum TorchError {
    /// libtorch itself refused or failed: shapes, memory, a device.
    #[error("libtorch: {0}")]
    Backend(#[from] TchError),
    /// A model's files or numbers do not fit; the text says which and where.
    #[error("{0}")]
    Model(String),
}
