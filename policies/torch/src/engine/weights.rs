//! Weights in the engine's layout: a snapshot that only the engine owns.
//!
//! Matrices are stored transposed (inner x outer), which MKL multiplies faster than a transposed view if there are few
//! rows; norms are slices. The publishing thread takes the snapshot, so the engine only swaps a pointer.
//!
//! I1. A snapshot is immutable and shares no memory with its source, which may be written to again.

use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use super::audited::transposed;
use crate::error::TorchError;
use crate::model::{Dtype, ParamLayout, Params};

/// A version of the weights.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) version: u64,
    pub(super) layout: Arc<ParamLayout>,
    /// V x D.
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<LayerWeights>,
    /// D.
    pub(super) final_norm: Vec<f32>,
    /// D x V.
    pub(super) head: Tensor,
}

/// Weights of one layer; letters of [`crate::ModelConfig`].
#[derive(Debug)]
pub(super) struct LayerWeights {
    /// D.
    pub(super) input_norm: Vec<f32>,
    /// D x (H + 2 K) E.
    pub(super) qkv: Tensor,
    /// E.
    pub(super) q_norm: Vec<f32>,
    /// E.
    pub(super) k_norm: Vec<f32>,
    /// H E x D.
    pub(super) o: Tensor,
    /// D.
    pub(super) post_norm: Vec<f32>,
    /// D x 2 F.
    pub(super) gate_up: Tensor,
    /// F x D.
    pub(super) down: Tensor,
}

impl Weights {
    /// Copies the parameters from any device and type to the CPU as fp32, with the values rounded to `dtype`.
    pub(super) fn snapshot(version: u64, params: &Params, dtype: Dtype) -> Result<Self, TorchError> {
        let _guard = tch::no_grad_guard();
        let layout = Arc::clone(params.layout());
        let transposed = |matrix: &Tensor| transposed(&served(matrix, dtype)?);
        let values = |vector: &Tensor| values(&served(vector, dtype)?);
        let mut layers = Vec::new();
        for index in 0..layout.config().num_hidden_layers {
            let layer = params.layer(index)?;
            layers.push(LayerWeights {
                input_norm: values(&layer.input_norm)?,
                qkv: transposed(&layer.qkv)?,
                q_norm: values(&layer.q_norm)?,
                k_norm: values(&layer.k_norm)?,
                o: transposed(&layer.o)?,
                post_norm: values(&layer.post_norm)?,
                gate_up: transposed(&layer.gate_up)?,
                down: transposed(&layer.down)?,
            });
        }
        Ok(Self {
            version,
            embedding: copied(&served(&params.embedding()?, dtype)?)?,
            layers,
            final_norm: values(&params.final_norm()?)?,
            head: transposed(&params.head()?)?,
            layout,
        })
    }
}

/// The values on the CPU in fp32, rounded to `dtype`. A tensor of this form shares its memory with the result.
pub(super) fn served(tensor: &Tensor, dtype: Dtype) -> Result<Tensor, TorchError> {
    let rounded = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(dtype.kind())?;
    Ok(rounded.f_to_kind(Kind::Float)?)
}

/// The same values, row-major in new memory (I1).
fn copied(matrix: &Tensor) -> Result<Tensor, TorchError> {
    let mut copy = Tensor::f_empty(matrix.size(), (Kind::Float, Device::Cpu))?;
    copy.f_copy_(&matrix.f_detach()?)?;
    Ok(copy)
}

/// Elements of a tensor.
pub(crate) fn values(tensor: &Tensor) -> Result<Vec<f32>, TorchError> {
    Ok(Vec::<f32>::try_from(tensor.f_detach()?.f_contiguous()?.f_view(-1)?)?)
}
