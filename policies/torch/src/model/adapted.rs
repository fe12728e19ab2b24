//! A model with or without an adapter, as it computes.

use super::lora::LayerAdapter;
use super::params::Params;
use crate::error::TorchError;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Adapted<'a> {
    /// The whole model.
    pub model: &'a Params,
    /// What changes it.
    pub adapter: Option<&'a Params>,
}

impl<'a> Adapted<'a> {
    /// A model as it is.
    #[must_use]
    pub fn whole(model: &'a Params) -> Self {
        Self { model, adapter: None }
    }

    /// What the adapter has of a layer; nothing without one.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn layer_adapter(&self, layer: i64) -> Result<LayerAdapter, TorchError> {
        self.adapter.map_or_else(|| Ok(LayerAdapter::default()), |adapter| adapter.layer_adapter(layer))
    }
}
