//! LoRA adapters in the engine's layout. Several are resident at once, each request chooses one, and none is merged into
//! the model.
//!
//! Where a layer's matrices are fused, their factors are fused too: the factors A side by side, the factors B as diagonal
//! blocks that include the scale. The product with the matrix is computed for all rows together, the adapter's addition
//! only for the rows that use the adapter.
//!
//! I1. An adapter is immutable once it is made, like [`super::weights::Weights`].
//!
//! Shapes: letters of [`crate::ModelConfig`], r the rank.

use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use super::audited::{GemmRows, Matrix, RANK_BLOCK, transposed};
use crate::error::TorchError;
use crate::model::{Dtype, LayerAdapter, LoraTarget, ModelConfig, Params};

/// Name by which a request chooses an adapter.
pub type AdapterName = Arc<str>;

/// A version of an adapter.
#[derive(Debug)]
pub(super) struct AdapterWeights {
    pub(super) version: u64,
    pub(super) layers: Vec<AdapterLayer>,
}

/// The factors of one layer; `None` for a matrix that the adapter does not change.
#[derive(Debug)]
pub(super) struct AdapterLayer {
    pub(super) qkv: Option<Factors>,
    pub(super) o: Option<Factors>,
    pub(super) gate_up: Option<Factors>,
    pub(super) down: Option<Factors>,
}

/// Factors of a fused matrix.
#[derive(Debug)]
pub(super) struct Factors {
    /// in x (r for each part).
    a: Tensor,
    /// (r for each part) x out.
    b: Tensor,
}

impl AdapterWeights {
    /// Copies the parameters of an adapter from any device and type and rounds the values to `dtype`.
    pub(super) fn snapshot(version: u64, params: &Params, dtype: Dtype) -> Result<Self, TorchError> {
        let params = &params.on(Device::Cpu, dtype)?.on(Device::Cpu, Dtype::Fp32)?;
        let _guard = tch::no_grad_guard();
        let config = params.layout().config();
        let layer = |index| layer(config, &params.layer_adapter(index)?);
        let layers: Result<_, _> = (0..config.num_hidden_layers).map(layer).collect();
        Ok(Self { version, layers: layers? })
    }
}

fn layer(config: &ModelConfig, adapter: &LayerAdapter) -> Result<AdapterLayer, TorchError> {
    let (d, f) = (config.hidden_size, config.intermediate_size);
    let (q, kv) = (config.query_size(), config.key_value_size());
    Ok(AdapterLayer {
        qkv: fused(adapter, &[(LoraTarget::QProj, q), (LoraTarget::KProj, kv), (LoraTarget::VProj, kv)])?,
        o: fused(adapter, &[(LoraTarget::OProj, d)])?,
        gate_up: fused(adapter, &[(LoraTarget::GateProj, f), (LoraTarget::UpProj, f)])?,
        down: fused(adapter, &[(LoraTarget::DownProj, d)])?,
    })
}

/// Fuses the factors of stacked matrices, each given with its number of rows.
fn fused(adapter: &LayerAdapter, parts: &[(LoraTarget, i64)]) -> Result<Option<Factors>, TorchError> {
    let rows: i64 = parts.iter().map(|(_, rows)| rows).sum();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut above = 0;
    for &(target, size) in parts {
        if let Some(part) = adapter.of(target) {
            let whole = Tensor::f_zeros([rows, part.b.size()[1]], (Kind::Float, Device::Cpu))?;
            whole.f_narrow(0, above, size)?.f_copy_(&part.b.f_mul_scalar(part.scale)?)?;
            a.push(part.a.shallow_clone());
            b.push(whole);
        }
        above += size;
    }
    let Some(columns) = a.first().map(|a: &Tensor| a.size()[1]) else { return Ok(None) };
    let missing = (-a.iter().map(|a| a.size()[0]).sum::<i64>()).rem_euclid(RANK_BLOCK);
    a.push(Tensor::f_zeros([missing, columns], (Kind::Float, Device::Cpu))?);
    b.push(Tensor::f_zeros([rows, missing], (Kind::Float, Device::Cpu))?);
    Ok(Some(Factors { a: transposed(&Tensor::f_cat(&a, 0)?)?, b: transposed(&Tensor::f_cat(&b, 1)?)? }))
}

/// Rows of a step and the adapter that they use.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdaptedRows<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) adapter: &'a AdapterWeights,
}

impl<'a> AdaptedRows<'a> {
    /// The adapter's factors in this layer.
    pub(super) fn layer(&self, index: usize) -> &'a AdapterLayer {
        &self.adapter.layers[index]
    }

    /// Adds the adapter's product with the rows of `input` to the rows of `output`.
    pub(super) fn add(
        &self,
        factors: Option<&Factors>,
        input: &Matrix,
        output: &mut Matrix,
        how: GemmRows,
    ) -> Result<(), TorchError> {
        let Some(Factors { a, b }) = factors else { return Ok(()) };
        output.add_low_rank(input, self.start..self.end, a, b, how)
    }
}
