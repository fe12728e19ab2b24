//! One layer of Qwen3 over packed rows, differentiable.
//!
//! Linears, norms and the gated unit see the rows of all segments as one matrix; only attention sees segments, through
//! [`PackedRows`].
//!
//! Shapes: letters of [`super::ModelConfig`], and R packed rows. Source: Qwen3 in Hugging Face transformers: norms over
//! each head of query and key before the rotation, grouped queries, SwiGLU, no biases.

use tch::{Device, Kind, Tensor};

use super::config::ModelConfig;
use super::lora::{LayerAdapter, LoraTarget};
use super::packed::PackedRows;
use super::params::LayerParams;
use crate::error::TorchError;

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
///
/// # Errors
/// [`TorchError`] from libtorch.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor, TorchError> {
    let size = weight.size();
    Ok(x.f_rms_norm(size.as_slice(), Some(weight), eps)?)
}

/// Cosines and sines of the rotary embedding for every position.
#[derive(Debug)]
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Tables of P x E, in fp32 from angles in fp32, as the reference computes them.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn new(config: &ModelConfig, device: Device) -> Result<Self, TorchError> {
        let half = config.head_dim / 2;
        let exponents = Tensor::f_arange(half, (Kind::Float, Device::Cpu))?
            .f_mul_scalar(2.0)?
            .f_div_scalar(config.head_dim as f64)?;
        let base = Tensor::f_full_like(&exponents, config.rope_theta)?;
        let frequencies = base.f_pow(&exponents)?.f_reciprocal()?;
        let positions = Tensor::f_arange(config.max_position_embeddings, (Kind::Float, Device::Cpu))?;
        let angles = positions.f_outer(&frequencies)?;
        let angles = Tensor::f_cat(&[&angles, &angles], 1)?;
        Ok(Self { cos: angles.f_cos()?.f_to_device(device)?, sin: angles.f_sin()?.f_to_device(device)? })
    }

    /// The tables of these rows, (R x 1 x E) each. `positions` is (R), i64.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn rows(&self, positions: &Tensor) -> Result<(Tensor, Tensor), TorchError> {
        let pick = |table: &Tensor| table.f_index_select(0, positions)?.f_unsqueeze(1);
        Ok((pick(&self.cos)?, pick(&self.sin)?))
    }

    /// The whole tables, P x E each: cosines, sines.
    pub fn tables(&self) -> (&Tensor, &Tensor) {
        (&self.cos, &self.sin)
    }
}

/// Rotates the pairs `(x[i], x[i + E/2])`, in fp32. `x` is R x heads x E.
fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor, TorchError> {
    let halves = x.f_chunk(2, -1)?;
    let turned = Tensor::f_cat(&[&halves[1].f_neg()?, &halves[0]], -1)?;
    Ok(x.f_mul(cos)?.f_add(&turned.f_mul(sin)?)?.f_to_kind(x.f_kind()?)?)
}

/// One layer: (R x D) to (R x D). An adapter that changes nothing is its default.
///
/// # Errors
/// [`TorchError`] from libtorch.
pub fn layer_forward(
    config: &ModelConfig,
    layer: &LayerParams,
    adapter: &LayerAdapter,
    x_rd: &Tensor,
    rows: &PackedRows,
) -> Result<Tensor, TorchError> {
    let eps = config.rms_norm_eps;
    let changed = |product: &Tensor, target: LoraTarget, input: &Tensor| match adapter.of(target) {
        Some(part) => Ok(product.f_add(&part.product(input)?)?),
        None => Ok::<_, TorchError>(product.shallow_clone()),
    };
    let normed_rd = rms_norm(x_rd, &layer.input_norm, eps)?;
    let qkv = normed_rd.f_linear(&layer.qkv, None::<&Tensor>)?;
    let (q_size, kv_size) = (config.query_size(), config.key_value_size());
    let parts = qkv.f_split_with_sizes([q_size, kv_size, kv_size], 1)?;
    let query = changed(&parts[0], LoraTarget::QProj, &normed_rd)?;
    let key = changed(&parts[1], LoraTarget::KProj, &normed_rd)?;
    let value = changed(&parts[2], LoraTarget::VProj, &normed_rd)?;
    let heads = |part: &Tensor, heads: i64| part.f_reshape([-1, heads, config.head_dim]);
    let q_rhe = rms_norm(&heads(&query, config.num_attention_heads)?, &layer.q_norm, eps)?;
    let k_rke = rms_norm(&heads(&key, config.num_key_value_heads)?, &layer.k_norm, eps)?;
    let v_rke = heads(&value, config.num_key_value_heads)?;
    let (cos, sin) = rows.rope();
    let attended = rows.attend(&rotate(&q_rhe, cos, sin)?, &rotate(&k_rke, cos, sin)?, &v_rke)?;
    let left = attended.f_linear(&layer.o, None::<&Tensor>)?;
    let x_rd = x_rd.f_add(&changed(&left, LoraTarget::OProj, &attended)?)?;

    let normed_rd = rms_norm(&x_rd, &layer.post_norm, eps)?;
    let gate_up = normed_rd.f_linear(&layer.gate_up, None::<&Tensor>)?.f_chunk(2, 1)?;
    let gate = changed(&gate_up[0], LoraTarget::GateProj, &normed_rd)?;
    let up = changed(&gate_up[1], LoraTarget::UpProj, &normed_rd)?;
    let unit_rf = gate.f_silu()?.f_mul(&up)?;
    let left = unit_rf.f_linear(&layer.down, None::<&Tensor>)?;
    Ok(x_rd.f_add(&changed(&left, LoraTarget::DownProj, &unit_rf)?)?)
}
