//! Where published weights go.

use crate::engine::{AdapterName, Applied, EngineHandle, PublishError};
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
        in_use(version, Self::publish(self, version, params))
    }
}

/// Publishes an adapter, under its name.
#[derive(Debug, Clone)]
pub struct AdapterPublisher {
    /// Whoever serves it.
    pub engine: EngineHandle,
    /// Its name there.
    pub name: AdapterName,
}

impl Publisher for AdapterPublisher {
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError> {
        in_use(version, self.engine.publish_adapter(&self.name, version, params))
    }
}

/// Waits until what was handed over is in use.
fn in_use(version: u64, handed_over: Result<Applied, PublishError>) -> Result<(), TorchError> {
    let applied = handed_over.and_then(Applied::wait_blocking);
    applied.map_err(|error| TorchError::Model(format!("version {version} cannot be published: {error}")))
}

/// Nobody acts with what is learned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpublished;

impl Publisher for Unpublished {
    fn publish(&self, _version: u64, _params: &Params) -> Result<(), TorchError> {
        Ok(())
    }
}
