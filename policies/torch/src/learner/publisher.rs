//! Where published weights go.

use crate::engine::EngineHandle;
use crate::error::TorchError;
use crate::model::Params;

/// Takes published weights.
pub trait Publisher: Send {
    /// Copies these weights, which nobody writes to meanwhile, and makes the copy act. When this returns, every token sampled from now on is of this
    /// version; whoever serves it waits no longer than one step.
    ///
    /// # Errors
    /// [`TorchError`] when nobody is there to take them.
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError>;
}

impl Publisher for EngineHandle {
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError> {
        let applied = Self::publish(self, version, params);
        let applied = applied.and_then(|applied| applied.wait_blocking());
        applied.map_err(|error| TorchError::Model(format!("version {version} cannot be published: {error}")))
    }
}

/// Nobody acts with what is learned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpublished;

impl Publisher for Unpublished {
    fn publish(&self, _version: u64, _params: &Params) -> Result<(), TorchError> {
        Ok(())
    }
}
