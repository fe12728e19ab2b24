//! Destinations of published weights.

use crate::engine::{AdapterName, Applied, EngineHandle, PublishError};
use crate::error::TorchError;
use crate::model::Params;

/// Takes published weights.
pub trait Publisher: Send {
    /// Copies these weights and puts the copy into use. The caller does not write to them during the call. After the call
    /// every token is sampled with this version; an engine is delayed by at most one step.
    ///
    /// # Errors
    /// [`TorchError`] if the receiver has ended.
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError>;
}

impl Publisher for EngineHandle {
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError> {
        in_use(version, Self::publish(self, version, params))
    }
}

/// Publishes an adapter to an engine under a fixed name.
#[derive(Debug, Clone)]
pub struct AdapterPublisher {
    /// The serving engine.
    pub engine: EngineHandle,
    /// Name of the adapter in the engine.
    pub name: AdapterName,
}

impl Publisher for AdapterPublisher {
    fn publish(&self, version: u64, params: &Params) -> Result<(), TorchError> {
        in_use(version, self.engine.publish_adapter(&self.name, version, params))
    }
}

/// Waits until the published weights are in use.
fn in_use(version: u64, handed_over: Result<Applied, PublishError>) -> Result<(), TorchError> {
    let applied = handed_over.and_then(Applied::wait_blocking);
    applied.map_err(|error| TorchError::Model(format!("version {version} cannot be published: {error}")))
}

/// Discards published weights, for training without a serving engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpublished;

impl Publisher for Unpublished {
    fn publish(&self, _version: u64, _params: &Params) -> Result<(), TorchError> {
        Ok(())
    }
}
