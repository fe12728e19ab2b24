//! Adapters: low-rank changes of a model's matrices, learned in place of the matrices themselves.
//!
//! A matrix W (out x in) acts as `W + scale B A`, with A (r x in), B (out x r) and `scale = alpha / r`. A fresh adapter has
//! B = 0, so it changes nothing.
//!
//! Source: LoRA, arXiv 2106.09685, section 4; names of tensors, the distribution of a fresh A and `scale` as in PEFT's
//! `LoraLayer`. Deviations: no dropout.
//!
//! Shapes: letters of [`ModelConfig`], r the rank.

use std::sync::Arc;

use clawrl_core::{SplitMix64, derive_seed};
use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::config::ModelConfig;
use super::params::{LayerParams, ParamLayout, Params};
use crate::error::TorchError;

/// PEFT's prefix of the model's parameter names.
pub(crate) const PEFT_PREFIX: &str = "base_model.model.";

/// A matrix of every layer that an adapter may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraTarget {
    /// Queries.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// Output of attention.
    OProj,
    /// The gate of the gated unit.
    GateProj,
    /// Its other input.
    UpProj,
    /// Output of the gated unit.
    DownProj,
}

impl LoraTarget {
    /// All of them, in the order of a layer.
    pub const ALL: [Self; 7] =
        [Self::QProj, Self::KProj, Self::VProj, Self::OProj, Self::GateProj, Self::UpProj, Self::DownProj];

    /// Name in a layer.
    fn part(self) -> &'static str {
        match self {
            Self::QProj => "self_attn.q_proj",
            Self::KProj => "self_attn.k_proj",
            Self::VProj => "self_attn.v_proj",
            Self::OProj => "self_attn.o_proj",
            Self::GateProj => "mlp.gate_proj",
            Self::UpProj => "mlp.up_proj",
            Self::DownProj => "mlp.down_proj",
        }
    }

    /// Columns and rows of the matrix: in, out.
    fn sizes(self, config: &ModelConfig) -> (i64, i64) {
        let (d, f) = (config.hidden_size, config.intermediate_size);
        match self {
            Self::QProj => (d, config.query_size()),
            Self::KProj | Self::VProj => (d, config.key_value_size()),
            Self::OProj => (config.query_size(), d),
            Self::GateProj | Self::UpProj => (d, f),
            Self::DownProj => (f, d),
        }
    }
}

/// Settings of an adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoraConfig {
    /// r.
    pub rank: i64,
    /// `scale` is alpha divided by the rank.
    pub alpha: f64,
    /// Which matrices of every layer, each once, ascending.
    pub targets: Vec<LoraTarget>,
}

impl LoraConfig {
    /// Checks that the settings are supported.
    ///
    /// # Errors
    /// [`TorchError::Model`], with the name of the field.
    pub fn check(&self) -> Result<(), TorchError> {
        let refused = |what: &str| Err(TorchError::Model(format!("of an adapter, {what}")));
        if !(1..=1024).contains(&self.rank) {
            return refused("the rank has to be from 1 to 1,024");
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return refused("alpha has to be positive");
        }
        if self.targets.is_empty() || !self.targets.is_sorted_by(|a, b| a < b) {
            return refused("the targets have to be some, each once");
        }
        Ok(())
    }

    /// Factor of the product of the matrices.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// Names and shapes of all factors.
    pub(super) fn factors(&self, config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
        let of_layer = |layer: i64| {
            self.targets.iter().flat_map(move |&target| {
                let (columns, rows) = target.sizes(config);
                let [a, b] = names(layer, target);
                [(a, vec![self.rank, columns]), (b, vec![rows, self.rank])]
            })
        };
        (0..config.num_hidden_layers).flat_map(of_layer).collect()
    }
}

/// Names of the two factors.
fn names(layer: i64, target: LoraTarget) -> [String; 2] {
    let name =
        |factor: char| format!("{PEFT_PREFIX}model.layers.{layer}.{}.lora_{factor}.weight", target.part());
    [name('A'), name('B')]
}

/// Factors of one matrix.
#[derive(Debug)]
pub struct LowRank {
    /// r x in.
    pub a: Tensor,
    /// out x r.
    pub b: Tensor,
    /// See [`LoraConfig::scale`].
    pub scale: f64,
}

impl LowRank {
    /// The adapter's addition to the product of rows (R x in) with the matrix: R x out.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn product(&self, x: &Tensor) -> Result<Tensor, TorchError> {
        // Scaled before the second product, because the output rows are hundreds of times wider.
        let narrow = x.f_linear(&self.a, None::<&Tensor>)?.f_mul_scalar(self.scale)?;
        Ok(narrow.f_linear(&self.b, None::<&Tensor>)?)
    }
}

/// An adapter's factors of one layer, as views; `None` for a matrix that it does not change.
#[derive(Debug, Default)]
pub struct LayerAdapter {
    parts: [Option<LowRank>; LoraTarget::ALL.len()],
}

impl LayerAdapter {
    /// Factors of this matrix.
    #[must_use]
    pub fn of(&self, target: LoraTarget) -> Option<&LowRank> {
        self.parts[target as usize].as_ref()
    }

    /// All factors, in a fixed order, for gradients.
    pub(crate) fn all(&self) -> Vec<&Tensor> {
        self.parts.iter().flatten().flat_map(|part| [&part.a, &part.b]).collect()
    }

    /// The same values as leaves whose gradients can be asked for.
    pub(crate) fn leaves(&self) -> Result<Self, TorchError> {
        let leaf = |tensor: &Tensor| -> Result<Tensor, TorchError> {
            Ok(tensor.f_detach()?.f_set_requires_grad(true)?)
        };
        let mut leaves = Self::default();
        for (leaf_part, part) in leaves.parts.iter_mut().zip(&self.parts) {
            if let Some(LowRank { a, b, scale }) = part {
                *leaf_part = Some(LowRank { a: leaf(a)?, b: leaf(b)?, scale: *scale });
            }
        }
        Ok(leaves)
    }
}

impl Params {
    /// An adapter's factors of a layer.
    ///
    /// # Errors
    /// [`TorchError::Model`] when these are the parameters of a whole model.
    pub fn layer_adapter(&self, layer: i64) -> Result<LayerAdapter, TorchError> {
        let lora = self.layout().lora();
        let lora = lora.ok_or_else(|| TorchError::Model("a whole model is no adapter".to_owned()))?;
        let mut adapter = LayerAdapter::default();
        for &target in &lora.targets {
            let [a, b] = names(layer, target);
            let part = LowRank { a: self.named(&a)?, b: self.named(&b)?, scale: lora.scale() };
            adapter.parts[target as usize] = Some(part);
        }
        Ok(adapter)
    }

    /// A copy of these parameters, of a whole model, with an adapter's change in them; it is kept in fp32.
    ///
    /// # Errors
    /// [`TorchError::Model`] when the adapter is for a model of another shape.
    pub fn merged(&self, adapter: &Self) -> Result<Self, TorchError> {
        if self.layout().lora().is_some() || adapter.layout().config() != self.layout().config() {
            return Err(TorchError::Model("the adapter is for a model of another shape".to_owned()));
        }
        // The change can be smaller than bf16 resolves and would be lost on writing.
        let config = ModelConfig { dtype: "float32".to_owned(), ..self.layout().config().clone() };
        let merged = Params::zeros(Arc::new(ParamLayout::new(config)), self.flat().device())?;
        merged.flat().shallow_clone().f_copy_(self.flat())?;
        for index in 0..self.layout().config().num_hidden_layers {
            let (layer, change) = (merged.layer(index)?, adapter.layer_adapter(index)?);
            for target in LoraTarget::ALL {
                let Some(LowRank { a, b, scale }) = change.of(target) else { continue };
                let product = tch::no_grad(|| b.f_mm(a)?.f_mul_scalar(*scale))?;
                let _ = tch::no_grad(|| of_layer(&layer, target, self.layout())?.f_add_(&product))?;
            }
        }
        Ok(merged)
    }
}

/// A matrix of a layer as a view.
fn of_layer(layer: &LayerParams, target: LoraTarget, layout: &ParamLayout) -> Result<Tensor, tch::TchError> {
    let config = layout.config();
    let (queries, keys) = (config.query_size(), config.key_value_size());
    let f = config.intermediate_size;
    match target {
        LoraTarget::QProj => layer.qkv.f_narrow(0, 0, queries),
        LoraTarget::KProj => layer.qkv.f_narrow(0, queries, keys),
        LoraTarget::VProj => layer.qkv.f_narrow(0, queries + keys, keys),
        LoraTarget::OProj => Ok(layer.o.shallow_clone()),
        LoraTarget::GateProj => layer.gate_up.f_narrow(0, 0, f),
        LoraTarget::UpProj => layer.gate_up.f_narrow(0, f, f),
        LoraTarget::DownProj => Ok(layer.down.shallow_clone()),
    }
}

/// A fresh adapter, which changes nothing: A from a seed, B 0.
///
/// # Errors
/// [`TorchError`] if memory is exhausted, or the configuration cannot be computed.
pub fn init_adapter(
    config: &ModelConfig,
    lora: &LoraConfig,
    seed: u64,
    device: Device,
) -> Result<Params, TorchError> {
    lora.check()?;
    for &target in &lora.targets {
        let (columns, rows) = target.sizes(config);
        if lora.rank > columns.min(rows) {
            let part = target.part();
            let message = format!("a rank of {} is more than {part} has, of {rows} x {columns}", lora.rank);
            return Err(TorchError::Model(message));
        }
    }
    let layout = Arc::new(ParamLayout::adapter(config.clone(), lora.clone()));
    let params = Params::zeros(Arc::clone(&layout), device)?;
    for layer in 0..config.num_hidden_layers {
        let adapter = params.layer_adapter(layer)?;
        for &target in &lora.targets {
            let Some(part) = adapter.of(target) else { continue };
            let size = part.a.size();
            // Uniform, as PEFT draws it: its bound is the root of one by the columns.
            let bound = 1.0 / (size[1] as f64).sqrt();
            let mut bits = SplitMix64::new(derive_seed(seed, "adapter", &[layer as u64, target as u64]));
            let values: Vec<f32> =
                (0..part.a.numel()).map(|_| (bound * (2.0 * bits.unit_f64() - 1.0)) as f32).collect();
            let values = Tensor::f_from_slice(&values)?.f_view(size.as_slice())?;
            part.a.shallow_clone().f_copy_(&values)?;
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::init_params;

    fn lora(targets: &[LoraTarget]) -> LoraConfig {
        LoraConfig { rank: 3, alpha: 6.0, targets: targets.to_vec() }
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        let check = |change: fn(&mut LoraConfig), expected: &str| {
            let mut config = lora(&LoraTarget::ALL);
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        lora(&LoraTarget::ALL).check().unwrap();
        check(|config| config.rank = 0, "rank");
        check(|config| config.alpha = f64::NAN, "alpha");
        check(|config| config.alpha = 0.0, "alpha");
        check(|config| config.targets.clear(), "targets");
        check(|config| config.targets.push(LoraTarget::QProj), "targets");
        let wide = LoraConfig { rank: 65, alpha: 1.0, targets: LoraTarget::ALL.to_vec() };
        let error = init_adapter(&ModelConfig::tiny(64, 3), &wide, 1, Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("a rank of 65 is more than self_attn.k_proj has, of 64 x 128"), "{error}");
    }

    /// Every target is of the matrix that its name says.
    #[test]
    fn a_merged_model_has_the_product_where_the_adapter_is() {
        let config = ModelConfig::tiny(64, 3);
        let model = init_params(Arc::new(ParamLayout::new(config.clone())), 1, Device::Cpu).unwrap();
        for target in LoraTarget::ALL {
            let adapter = init_adapter(&config, &lora(&[target]), 5, Device::Cpu).unwrap();
            assert!(model.merged(&adapter).unwrap().flat().equal(model.flat()), "B is 0");
            let part = adapter.layer_adapter(1).unwrap();
            let part = part.of(target).unwrap();
            let _ = part.b.shallow_clone().f_fill_(0.25).unwrap();
            let merged = model.merged(&adapter).unwrap();
            for spec in model.layout().specs() {
                let (now, before) = (merged.view(spec).unwrap(), model.view(spec).unwrap());
                if spec.name == format!("model.layers.1.{}.weight", target.part()) {
                    let expected = &before + part.b.mm(&part.a) * 2.0;
                    assert!(now.allclose(&expected, 1e-6, 1e-6, false), "{}", spec.name);
                    assert!(!now.equal(&before));
                } else {
                    assert!(now.equal(&before), "{}", spec.name);
                }
            }
        }
    }

    #[test]
    fn a_fresh_adapter_is_a_function_of_its_seed() {
        let config = ModelConfig::tiny(64, 3);
        let fresh = |seed| init_adapter(&config, &lora(&LoraTarget::ALL), seed, Device::Cpu).unwrap();
        assert!(fresh(1).flat().equal(fresh(1).flat()));
        assert!(!fresh(1).flat().equal(fresh(2).flat()));
        let adapter = fresh(1).layer_adapter(0).unwrap();
        let a = &adapter.of(LoraTarget::DownProj).unwrap().a;
        let largest = f64::try_from(a.abs().max()).unwrap();
        let bound = 1.0 / (config.intermediate_size as f64).sqrt();
        assert!(largest <= bound && largest > 0.9 * bound, "{largest}, {bound}");
    }
}
