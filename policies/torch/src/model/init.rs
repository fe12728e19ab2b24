//! Fresh parameters from a seed.
//!
//! I1. The values are a function of layout and seed alone: not of threads, device or libtorch's generator.
//!
//! Matrices are drawn from a normal distribution with the configuration's `initializer_range` and mean 0; norms are 1.
//! Source: the initialisation of Qwen3 in Hugging Face transformers. Deviations: our own generator, and a bias towards
//! copying, the skill that a tiny policy needs first and that otherwise appears late. (1) The output projection of
//! attention begins as the transpose of the value projection: a token that a head attends to then raises the probability of
//! that same token, instead of random ones. (2) Embeddings have a standard deviation of 1, so that the blocks do not drown
//! the tokens in the residual stream; where they are the head as well, the final norm begins at 1/sqrt(D) to keep
//! logits at a deviation of 1. Together they halve the steps to a given loss of imitation.

use std::f64::consts::TAU;
use std::sync::Arc;

use clawrl_core::{SplitMix64, derive_seed};
use tch::{Device, Kind, Tensor};

use super::params::{ParamLayout, Params};
use crate::error::TorchError;

/// Draws all parameters of a layout.
///
/// # Errors
/// [`TorchError`] if memory is exhausted.
pub fn init_params(layout: Arc<ParamLayout>, seed: u64, device: Device) -> Result<Params, TorchError> {
    let deviation = layout.config().initializer_range;
    let params = Params::zeros(Arc::clone(&layout), Device::Cpu)?;
    for (index, spec) in layout.specs().iter().enumerate() {
        let mut view = params.view(spec)?;
        if spec.offset >= layout.decayed() {
            let _ = view.f_fill_(1.0)?;
        } else {
            let count = usize::try_from(spec.numel()).unwrap_or(0);
            let values = normal(derive_seed(seed, "parameters", &[index as u64]), count, deviation);
            view.f_copy_(&Tensor::f_from_slice(&values)?.f_view(spec.shape.as_slice())?)?;
        }
    }
    favour_copying(&params)?;
    if device == Device::Cpu {
        return Ok(params);
    }
    let moved = Params::zeros(layout, device)?;
    let mut flat = moved.flat().shallow_clone();
    flat.f_copy_(&params.flat().f_to_kind(Kind::Float)?)?;
    Ok(moved)
}

/// Parameters of a model for benchmarks only: matrices are normal with the configuration's deviation, norms 1. They are
/// drawn by libtorch's generator on the device itself, which is fast for billions; the same seed gives the same values on
/// that
/// device alone, so I1 does not hold.
///
/// # Errors
/// [`TorchError`] if memory is exhausted.
pub fn random_params(layout: Arc<ParamLayout>, seed: i64, device: Device) -> Result<Params, TorchError> {
    tch::manual_seed(seed);
    let params = Params::zeros(Arc::clone(&layout), device)?;
    for spec in layout.specs() {
        let mut view = params.view(spec)?;
        let _ = if spec.offset >= layout.decayed() {
            view.f_fill_(1.0)?
        } else {
            view.f_normal_(0.0, layout.config().initializer_range)?
        };
    }
    Ok(params)
}

/// See the module.
fn favour_copying(params: &Params) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    let config = params.layout().config();
    let (hidden, key_heads, head_dim) = (config.hidden_size, config.num_key_value_heads, config.head_dim);
    for index in 0..config.num_hidden_layers {
        let layer = params.layer(index)?;
        let (queries, keys) = (config.query_size(), config.key_value_size());
        let v_ked = layer.qkv.f_narrow(0, queries + keys, keys)?.f_view([key_heads, head_dim, hidden])?;
        let of_each_head = v_ked.f_repeat_interleave_self_int(queries / keys, 0, None)?;
        let o_dq = of_each_head.f_view([queries, hidden])?.f_transpose(0, 1)?;
        layer.o.shallow_clone().f_copy_(&o_dq)?;
    }
    let mut embedding = params.embedding()?;
    let _ = embedding.f_mul_scalar_(1.0 / config.initializer_range)?;
    if config.tie_word_embeddings {
        let _ = params.final_norm()?.f_fill_(1.0 / (hidden as f64).sqrt())?;
    }
    Ok(())
}

/// Box and Muller's transform, two values a pair of uniforms.
fn normal(seed: u64, count: usize, deviation: f64) -> Vec<f32> {
    let mut bits = SplitMix64::new(seed);
    // In (0, 1], which avoids the logarithm of 0.
    let mut uniform = move || 1.0 - bits.unit_f64();
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt() * deviation, TAU * uniform());
        values.push((radius * angle.cos()) as f32);
        values.push((radius * angle.sin()) as f32);
    }
    values.truncate(count);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelConfig;

    #[test]
    fn a_seed_decides_and_the_distribution_fits() {
        let layout = Arc::new(ParamLayout::new(ModelConfig::tiny(512, 0)));
        let draw = |seed| init_params(Arc::clone(&layout), seed, Device::Cpu).unwrap();
        let (a, b, c) = (draw(1), draw(1), draw(2));
        assert!(a.flat().f_equal(b.flat()).unwrap());
        assert!(!a.flat().f_equal(c.flat()).unwrap());
        let embedding = a.embedding().unwrap();
        let deviation = f64::try_from(embedding.f_std(true).unwrap()).unwrap();
        let mean = f64::try_from(embedding.f_mean(Kind::Double).unwrap()).unwrap();
        assert!((deviation - 1.0).abs() < 1e-2 && mean.abs() < 1e-2, "{deviation} {mean}");
        let layer = a.layer(1).unwrap();
        let deviation = f64::try_from(layer.qkv.f_std(true).unwrap()).unwrap();
        assert!((deviation - 0.06).abs() < 1e-3, "{deviation}");
        let norm = layer.post_norm;
        assert!(norm.f_equal(&norm.f_ones_like().unwrap()).unwrap());
        let head = a.final_norm().unwrap().f_mul(&a.embedding().unwrap()).unwrap();
        let norm = f64::try_from(head.f_square().unwrap().f_sum(Kind::Double).unwrap()).unwrap();
        assert!((norm / 512.0 - 1.0).abs() < 1e-2, "{norm}");
    }

    /// Each head returns the attended token on the part of the embedding that it reads.
    #[test]
    fn a_token_that_is_looked_at_becomes_more_likely() {
        let layout = Arc::new(ParamLayout::new(ModelConfig::tiny(512, 0)));
        let params = init_params(layout, 3, Device::Cpu).unwrap();
        let config = params.layout().config();
        let layer = params.layer(0).unwrap();
        let v = layer.qkv.f_narrow(0, config.query_size() + config.key_value_size(), 64).unwrap();
        // The second of four query heads reads the first of two key heads.
        let (v, o) = (v.f_narrow(0, 0, 32).unwrap(), layer.o.f_narrow(1, 32, 32).unwrap());
        let through_vd = params.embedding().unwrap().f_matmul(&v.f_transpose(0, 1).unwrap()).unwrap();
        let through_vd = through_vd.f_matmul(&o.f_transpose(0, 1).unwrap()).unwrap();
        let scores = through_vd.f_matmul(&params.embedding().unwrap().f_transpose(0, 1).unwrap()).unwrap();
        let best = scores.f_argmax(1, false).unwrap();
        let tokens = Tensor::f_arange(512, (Kind::Int64, Device::Cpu)).unwrap();
        let right = f64::try_from(best.f_eq_tensor(&tokens).unwrap().f_sum(Kind::Double).unwrap()).unwrap();
        assert!(right > 400.0, "{right} of 512");
    }
}
