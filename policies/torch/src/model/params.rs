//! All parameters of a model in one flat fp32 buffer.
//!
//! One buffer makes one call of every whole-model operation: the optimizer step, the gradient's norm, the sum over
//! ranks, the copy to serving, the checkpoint. Named parameters are views into it.
//!
//! I1. Matrices come first, vectors after them, so weight decay applies to one contiguous part. I2. The matrices of
//! query, key and value of a layer are adjacent, and so are those of gate and up: each trio and pair is one view.
//! I3. Every parameter begins at a multiple of 16 elements; the gaps are zero and stay zero.
//!
//! Shapes: letters of [`ModelConfig`]; the flat buffer is (N).

use std::collections::HashMap;
use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use super::config::ModelConfig;
use super::dtype::Dtype;
use super::lora::{LoraConfig, PEFT_PREFIX};
use crate::error::TorchError;

/// Elements to which the beginning of a parameter is aligned: one cache line of fp32.
const ALIGNMENT: i64 = 16;
/// Elements processed at once in whole-model operations, so that temporary values take 1 GiB, not as much as the model.
const STRETCH: i64 = 1 << 28;

/// One named parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamSpec {
    /// Name in Hugging Face files.
    pub name: String,
    /// Rows and columns, or the length of a vector.
    pub shape: Vec<i64>,
    /// First element in the flat buffer.
    pub offset: i64,
}

impl ParamSpec {
    /// Number of elements.
    #[must_use]
    pub fn numel(&self) -> i64 {
        self.shape.iter().product()
    }
}

/// Where each parameter lies.
#[derive(Debug, PartialEq)]
pub struct ParamLayout {
    config: ModelConfig,
    lora: Option<LoraConfig>,
    specs: Vec<ParamSpec>,
    by_name: HashMap<String, usize>,
    decayed: i64,
    numel: i64,
}

impl ParamLayout {
    /// Lays out a checked configuration.
    #[must_use]
    pub fn new(config: ModelConfig) -> Self {
        let (d, f, e) = (config.hidden_size, config.intermediate_size, config.head_dim);
        let (q, kv) = (config.query_size(), config.key_value_size());
        let mut matrices = vec![("model.embed_tokens.weight".to_owned(), vec![config.vocab_size, d])];
        let mut vectors = Vec::new();
        for layer in 0..config.num_hidden_layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
            matrices.extend([
                (name("self_attn.q_proj"), vec![q, d]),
                (name("self_attn.k_proj"), vec![kv, d]),
                (name("self_attn.v_proj"), vec![kv, d]),
                (name("self_attn.o_proj"), vec![d, q]),
                (name("mlp.gate_proj"), vec![f, d]),
                (name("mlp.up_proj"), vec![f, d]),
                (name("mlp.down_proj"), vec![d, f]),
            ]);
            vectors.extend([
                (name("input_layernorm"), vec![d]),
                (name("self_attn.q_norm"), vec![e]),
                (name("self_attn.k_norm"), vec![e]),
                (name("post_attention_layernorm"), vec![d]),
            ]);
        }
        if !config.tie_word_embeddings {
            matrices.push(("lm_head.weight".to_owned(), vec![config.vocab_size, d]));
        }
        vectors.push(("model.norm.weight".to_owned(), vec![d]));
        Self::placed(config, None, matrices, vectors)
    }

    /// Lays out an adapter of a model: the two factors of every matrix that it changes, under the names of PEFT. All of them
    /// are matrices.
    #[must_use]
    pub fn adapter(config: ModelConfig, lora: LoraConfig) -> Self {
        let factors = lora.factors(&config);
        Self::placed(config, Some(lora), factors, Vec::new())
    }

    /// I1 and I3.
    fn placed(
        config: ModelConfig,
        lora: Option<LoraConfig>,
        matrices: Vec<(String, Vec<i64>)>,
        vectors: Vec<(String, Vec<i64>)>,
    ) -> Self {
        let mut specs: Vec<ParamSpec> = Vec::new();
        let mut offset = 0;
        let mut place = |(name, shape): (String, Vec<i64>)| {
            let spec = ParamSpec { name, shape, offset };
            offset = (offset + spec.numel() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            specs.push(spec);
            offset
        };
        let decayed = matrices.into_iter().map(&mut place).last().unwrap_or(0);
        let numel = vectors.into_iter().map(&mut place).last().unwrap_or(decayed);
        let by_name = specs.iter().enumerate().map(|(index, spec)| (spec.name.clone(), index)).collect();
        Self { config, lora, specs, by_name, decayed, numel }
    }

    /// Shape of the model; of an adapter, of the model that it is for.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Settings of the adapter; `None` for a whole model.
    #[must_use]
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// Every parameter in order of offset.
    #[must_use]
    pub fn specs(&self) -> &[ParamSpec] {
        &self.specs
    }

    /// The parameter of this name.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<&ParamSpec> {
        self.by_name.get(name).map(|&index| &self.specs[index])
    }

    /// Elements from the start that weight decay applies to.
    #[must_use]
    pub fn decayed(&self) -> i64 {
        self.decayed
    }

    /// Elements of the flat buffer, gaps included.
    #[must_use]
    pub fn numel(&self) -> i64 {
        self.numel
    }

    /// Parameters, gaps excluded.
    #[must_use]
    pub fn parameters(&self) -> i64 {
        self.specs.iter().map(ParamSpec::numel).sum()
    }
}

/// A flat buffer with its layout. Used for weights, gradients and moments alike.
#[derive(Debug)]
pub struct Params {
    layout: Arc<ParamLayout>,
    flat: Tensor,
}

/// The tensors of one layer, as views.
#[derive(Debug)]
pub struct LayerParams {
    /// D.
    pub input_norm: Tensor,
    /// (H + 2 K) E x D: query, key, value.
    pub qkv: Tensor,
    /// E.
    pub q_norm: Tensor,
    /// E.
    pub k_norm: Tensor,
    /// D x H E.
    pub o: Tensor,
    /// D.
    pub post_norm: Tensor,
    /// 2 F x D: gate, up.
    pub gate_up: Tensor,
    /// D x F.
    pub down: Tensor,
}

impl LayerParams {
    /// In a fixed order, for gradients.
    pub fn all(&self) -> [&Tensor; 8] {
        [
            &self.input_norm,
            &self.qkv,
            &self.q_norm,
            &self.k_norm,
            &self.o,
            &self.post_norm,
            &self.gate_up,
            &self.down,
        ]
    }

    /// The same values as leaves whose gradients can be asked for.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn leaves(&self) -> Result<Self, TorchError> {
        let leaf = |tensor: &Tensor| -> Result<Tensor, TorchError> {
            Ok(tensor.f_detach()?.f_set_requires_grad(true)?)
        };
        Ok(Self {
            input_norm: leaf(&self.input_norm)?,
            qkv: leaf(&self.qkv)?,
            q_norm: leaf(&self.q_norm)?,
            k_norm: leaf(&self.k_norm)?,
            o: leaf(&self.o)?,
            post_norm: leaf(&self.post_norm)?,
            gate_up: leaf(&self.gate_up)?,
            down: leaf(&self.down)?,
        })
    }
}

impl Params {
    /// All zero, on a device.
    ///
    /// # Errors
    /// [`TorchError`] if memory is exhausted.
    pub fn zeros(layout: Arc<ParamLayout>, device: Device) -> Result<Self, TorchError> {
        let flat = Tensor::f_zeros([layout.numel()], (Kind::Float, device))?;
        Ok(Self { layout, flat })
    }

    /// A copy of its own.
    ///
    /// # Errors
    /// [`TorchError`] if memory is exhausted.
    pub fn copy(&self) -> Result<Self, TorchError> {
        self.copy_on(self.flat.device())
    }

    /// A copy of its own on a device.
    ///
    /// # Errors
    /// [`TorchError`] if memory is exhausted.
    pub fn copy_on(&self, device: Device) -> Result<Self, TorchError> {
        let mut flat = Tensor::f_empty(self.flat.size(), (self.flat.kind(), device))?;
        flat.f_copy_(&self.flat)?;
        Ok(Self { layout: Arc::clone(&self.layout), flat })
    }

    /// Copies the values of parameters with the same layout, from any device.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn overwrite(&self, with: &Self) -> Result<(), TorchError> {
        Ok(tch::no_grad(|| self.flat.shallow_clone().f_copy_(&with.flat))?)
    }

    /// The same values on a device, rounded to a type; memory of their own only where one of the two differs.
    ///
    /// # Errors
    /// [`TorchError`] if memory is exhausted.
    pub fn on(&self, device: Device, dtype: Dtype) -> Result<Self, TorchError> {
        // Rounded first: less goes to the device, and nothing wider is ever there.
        let flat = tch::no_grad(|| self.flat.f_to_kind(dtype.kind())?.f_to_device(device))?;
        Ok(Self { layout: Arc::clone(&self.layout), flat })
    }

    /// A second handle to the same memory, for another thread: [`Tensor`] is `Send`, not `Sync`.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { layout: Arc::clone(&self.layout), flat: self.flat.shallow_clone() }
    }

    /// Where each parameter lies.
    #[must_use]
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The whole buffer (N).
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// One parameter as a view.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn view(&self, spec: &ParamSpec) -> Result<Tensor, TorchError> {
        self.span(spec.offset, &spec.shape)
    }

    /// The parameter of this name as a view.
    ///
    /// # Errors
    /// [`TorchError::Model`] when there is none.
    pub fn named(&self, name: &str) -> Result<Tensor, TorchError> {
        let spec = self.layout.spec(name);
        let spec = spec.ok_or_else(|| TorchError::Model(format!("there is no parameter `{name}`")))?;
        self.view(spec)
    }

    /// The embedding (V x D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn embedding(&self) -> Result<Tensor, TorchError> {
        self.named("model.embed_tokens.weight")
    }

    /// The output matrix (V x D): the embedding where they are tied.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn head(&self) -> Result<Tensor, TorchError> {
        if self.layout.config.tie_word_embeddings { self.embedding() } else { self.named("lm_head.weight") }
    }

    /// The norm before the head (D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn final_norm(&self) -> Result<Tensor, TorchError> {
        self.named("model.norm.weight")
    }

    /// The tensors of a layer (I2).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn layer(&self, layer: i64) -> Result<LayerParams, TorchError> {
        let config = &self.layout.config;
        let named = |part: &str| self.named(&format!("model.layers.{layer}.{part}.weight"));
        let fused = |first: &str, rows: i64| -> Result<Tensor, TorchError> {
            let name = format!("model.layers.{layer}.{first}.weight");
            let spec = self.layout.spec(&name);
            let spec = spec.ok_or_else(|| TorchError::Model(format!("there is no parameter `{name}`")))?;
            self.span(spec.offset, &[rows, config.hidden_size])
        };
        Ok(LayerParams {
            input_norm: named("input_layernorm")?,
            qkv: fused("self_attn.q_proj", config.query_size() + 2 * config.key_value_size())?,
            q_norm: named("self_attn.q_norm")?,
            k_norm: named("self_attn.k_norm")?,
            o: named("self_attn.o_proj")?,
            post_norm: named("post_attention_layernorm")?,
            gate_up: fused("mlp.gate_proj", 2 * config.intermediate_size)?,
            down: named("mlp.down_proj")?,
        })
    }

    /// Distance from parameters of the same layout, relative to their norm: by part of the model, layers combined, and
    /// `all` last.
    ///
    /// # Errors
    /// [`TorchError::Model`] when they are of another layout.
    pub fn distances(&self, from: &Self) -> Result<Vec<(String, f64)>, TorchError> {
        // Files of another type hold the same model.
        if self.layout.specs() != from.layout.specs() {
            return Err(TorchError::Model("two models of different shapes have no distance".to_owned()));
        }
        let squares = |tensor: &Tensor| -> Result<f64, TorchError> {
            Ok(f64::try_from(tensor.f_square()?.f_sum(Kind::Double)?)?)
        };
        let mut parts: Vec<(String, f64, f64)> = Vec::new();
        let mut all = (0.0, 0.0);
        for spec in self.layout.specs() {
            let (here, there) = (self.view(spec)?, from.view(spec)?);
            let (apart, norm) = (squares(&here.f_sub(&there)?)?, squares(&there)?);
            all = (all.0 + apart, all.1 + norm);
            let part = part_name(&spec.name);
            match parts.iter_mut().find(|(known, ..)| *known == part) {
                Some((_, known, whole)) => (*known, *whole) = (*known + apart, *whole + norm),
                None => parts.push((part, apart, norm)),
            }
        }
        parts.push(("all".to_owned(), all.0, all.1));
        let ratio =
            |(part, apart, norm): (String, f64, f64)| (part, (apart / norm.max(f64::MIN_POSITIVE)).sqrt());
        Ok(parts.into_iter().map(ratio).collect())
    }

    /// L2 norm of all elements; not finite as soon as one of them is not.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn norm(&self) -> Result<f64, TorchError> {
        let mut squares = 0.0;
        for (start, length) in stretches(0, self.layout.numel()) {
            // In fp64: the squares of a large model's gradients span more than fp32 adds well.
            let of_stretch = self.flat.f_narrow(0, start, length)?.f_square()?.f_sum(Kind::Double)?;
            squares += f64::try_from(of_stretch)?;
        }
        Ok(squares.sqrt())
    }

    fn span(&self, offset: i64, shape: &[i64]) -> Result<Tensor, TorchError> {
        Ok(self.flat.f_narrow(0, offset, shape.iter().product())?.f_view(shape)?)
    }
}

/// From `start` on so many elements, in parts: first element and length of each.
pub(crate) fn stretches(start: i64, length: i64) -> impl Iterator<Item = (i64, i64)> {
    let end = start + length;
    (start..end).step_by(STRETCH as usize).map(move |at| (at, STRETCH.min(end - at)))
}

/// A parameter's name without that of its layer: `self_attn.q_proj` of `model.layers.3.self_attn.q_proj.weight`.
fn part_name(name: &str) -> String {
    let short = name.strip_suffix(".weight").unwrap_or(name);
    let short = short.strip_prefix(PEFT_PREFIX).unwrap_or(short);
    let short = short.strip_prefix("model.").unwrap_or(short);
    let in_layer = short.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    in_layer.map_or(short, |(_, part)| part).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_all_elements_once() {
        let all = |start, length| stretches(start, length).collect::<Vec<_>>();
        assert_eq!(all(0, 0), []);
        assert_eq!(all(5, 7), [(5, 7)]);
        assert_eq!(all(16, STRETCH), [(16, STRETCH)]);
        assert_eq!(all(16, 2 * STRETCH + 1), [(16, STRETCH), (16 + STRETCH, STRETCH), (16 + 2 * STRETCH, 1)]);
    }

    #[test]
    fn distances_are_by_part_over_all_layers() {
        let layout = Arc::new(layout(true));
        let ones = || {
            let params = Params::zeros(Arc::clone(&layout), Device::Cpu).unwrap();
            for spec in layout.specs() {
                let _ = params.view(spec).unwrap().f_fill_(1.0).unwrap();
            }
            params
        };
        let (from, to) = (ones(), ones());
        for layer in 0..layout.config().num_hidden_layers {
            let name = format!("model.layers.{layer}.mlp.up_proj.weight");
            let _ = to.named(&name).unwrap().f_fill_(1.5).unwrap();
        }
        let distances = to.distances(&from).unwrap();
        let of = |part: &str| distances.iter().find(|(known, _)| known == part).unwrap().1;
        assert_eq!(
            (of("mlp.up_proj"), of("mlp.down_proj"), of("embed_tokens"), of("norm")),
            (0.5, 0.0, 0.0, 0.0)
        );
        assert!((0.0..0.5).contains(&of("all")) && of("all") > 0.1);
        assert_eq!(distances.last().unwrap().0, "all");
        let other = Params::zeros(Arc::new(self::layout(false)), Device::Cpu).unwrap();
        assert!(to.distances(&other).is_err());
    }

    fn layout(tied: bool) -> ParamLayout {
        let mut config = ModelConfig::tiny(515, 3);
        config.tie_word_embeddings = tied;
        ParamLayout::new(config)
    }

    #[test]
    fn parameters_do_not_overlap_and_matrices_come_first() {
        for tied in [true, false] {
            let layout = layout(tied);
            for pair in layout.specs().windows(2) {
                assert!(pair[0].offset + pair[0].numel() <= pair[1].offset, "{pair:?}");
                assert_eq!(pair[1].offset % ALIGNMENT, 0);
            }
            for spec in layout.specs() {
                assert_eq!(spec.shape.len() == 2, spec.offset < layout.decayed(), "{spec:?}");
            }
            assert_eq!(layout.spec("lm_head.weight").is_some(), !tied);
        }
    }

    #[test]
    fn fused_views_are_the_named_ones_in_order() {
        let layout = Arc::new(layout(true));
        let params = Params::zeros(Arc::clone(&layout), Device::Cpu).unwrap();
        let _ = params.named("model.layers.1.self_attn.k_proj.weight").unwrap().f_fill_(2.0).unwrap();
        let _ = params.named("model.layers.1.mlp.up_proj.weight").unwrap().f_fill_(3.0).unwrap();
        let layer = params.layer(1).unwrap();
        let config = layout.config();
        let key = layer.qkv.f_narrow(0, config.query_size(), config.key_value_size()).unwrap();
        assert_eq!(f64::try_from(key.f_mean(Kind::Float).unwrap()).unwrap(), 2.0);
        assert_eq!(f64::try_from(layer.qkv.f_sum(Kind::Float).unwrap()).unwrap(), 2.0 * key.numel() as f64);
        let up = layer.gate_up.f_narrow(0, config.intermediate_size, config.intermediate_size).unwrap();
        assert_eq!(f64::try_from(up.f_mean(Kind::Float).unwrap()).unwrap(), 3.0);
    }
}
