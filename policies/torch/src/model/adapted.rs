//! A model with or without an adapter, for passes.

use super::lora::LayerAdapter;
use super::params::Params;
use crate::error::TorchError;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Adapted<'a> {
    /// The whole model.
    pub model: &'a Params,
    /// The adapter, if any.
    pub adapter: Option<&'a Params>,
}

impl<'a> Adapted<'a> {
    /// A model without an adapter.
    #[must_use]
    pub fn whole(model: &'a Params) -> Self {
        Self { model, adapter: None }
    }

    /// The adapter's factors of a layer; empty without an adapter.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn layer_adapter(&self, layer: i64) -> Result<LayerAdapter, TorchError> {
        self.adapter.map_or_else(|| Ok(LayerAdapter::default()), |adapter| adapter.layer_adapter(layer))
    }
}
