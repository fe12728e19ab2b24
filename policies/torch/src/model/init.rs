//! Fresh parameters from a seed.
//!
//! I1. The values are a function of layout and seed alone: not of threads, device or libtorch's generator.
//!
//! Matrices are drawn from a normal distribution with the configuration's `initializer_range` and mean 0; norms are 1.
//! Source: the initialisation of Qwen3 in Hugging Face transformers. Deviations: our own generator.

use std::f64::consts::TAU;
use std::sync::Arc;

use clawrl_core::{SplitMix64, derive_seed};
use tch::{Device, Kind, Tensor};

use super::params::{ParamLayout, Params};
use crate::error::TorchError;

/// Draws all parameters of a layout.
///
/// # Errors
/// [`TorchError`] when there is no memory for them.
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
    if device == Device::Cpu {
        return Ok(params);
    }
    let moved = Params::zeros(layout, device)?;
    let mut flat = moved.flat().shallow_clone();
    flat.f_copy_(&params.flat().f_to_kind(Kind::Float)?)?;
    Ok(moved)
}

/// Box and Muller's transform, two values a pair of uniforms.
fn normal(seed: u64, count: usize, deviation: f64) -> Vec<f32> {
    let mut bits = SplitMix64::new(seed);
    // In (0, 1]: the logarithm of 0 is not wanted.
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
        assert!((deviation - 0.06).abs() < 1e-3 && mean.abs() < 1e-3, "{deviation} {mean}");
        let norm = a.final_norm().unwrap();
        assert!(norm.f_equal(&norm.f_ones_like().unwrap()).unwrap());
    }
}
