//! Forward and backward by layer segments.
//!
//! The graph is cut at every layer: forward runs a layer on a detached input, and backward computes the gradients of that
//! layer's input and parameters alone. The gradients equal those of one uncut graph. At a cut, activations may be dropped
//! and recomputed, a sum over ranks may begin, and a learner that shares its device may yield.
//!
//! I1. Gradients are added to the given buffer; the caller zeroes it once an optimizer step. I2. With
//! [`Activations::Recompute`] the gradients are bit-identical to those with [`Activations::Keep`]. I3. For a model with an
//! adapter, only the adapter's gradients are computed. I4. The last norm is computed in fp32 and gradients are summed in
//! fp32, for parameters of any type. I5. A pass may yield the device between two layers.
//!
//! Shapes: R rows, M predicted rows, D hidden size.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::error::TorchError;
use crate::model::{
    Adapted, LayerAdapter, LayerParams, PackedRows, ParamLayout, Params, layer_forward, rms_norm,
};
use crate::turns::LearnerTurn;

/// Activations to keep between forward and backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// Keeps all activations inside the layers: fastest.
    #[default]
    Keep,
    /// Keeps the inputs of the layers and recomputes the rest, which takes a quarter more time.
    Recompute,
}

/// A forward pass, ready for its backward pass.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    adapted: Adapted<'a>,
    rows: &'a PackedRows,
    layers: Vec<LayerPass>,
    last_rd: Tensor,
    final_norm: Tensor,
    /// Normed predicting rows (M x D), with their graph.
    hidden_md: Tensor,
}

#[derive(Debug)]
struct LayerPass {
    input_rd: Tensor,
    /// Leaves and output with their graph, if activations are kept.
    kept: Option<(Leaves, Tensor)>,
}

/// A layer whose trained tensors are leaves (I3).
#[derive(Debug)]
struct Leaves {
    layer: LayerParams,
    adapter: LayerAdapter,
    trains_layer: bool,
}

impl Leaves {
    fn new(adapted: Adapted<'_>, index: i64) -> Result<Self, TorchError> {
        let (layer, adapter) = (adapted.model.layer(index)?, adapted.layer_adapter(index)?.leaves()?);
        let trains_layer = adapted.adapter.is_none();
        Ok(Self { layer: if trains_layer { layer.leaves()? } else { layer }, adapter, trains_layer })
    }

    fn trained(&self) -> Vec<&Tensor> {
        if self.trains_layer { self.layer.all().to_vec() } else { self.adapter.all() }
    }
}

impl<'a> Pass<'a> {
    /// Runs the model. `predicting` (M), i64, are the indices of the predicting rows.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn forward(
        adapted: Adapted<'a>,
        rows: &'a PackedRows,
        predicting: &Tensor,
        activations: Activations,
        turn: &mut LearnerTurn,
    ) -> Result<Self, TorchError> {
        let params = adapted.model;
        let config = params.layout().config();
        let mut x_rd = embed(params, rows)?;
        let mut layers = Vec::new();
        for index in 0..config.num_hidden_layers {
            let (kept, output_rd) = match activations {
                Activations::Keep => {
                    let (leaves, input_rd) = (Leaves::new(adapted, index)?, leaf(&x_rd)?);
                    let output_rd = layer_forward(config, &leaves.layer, &leaves.adapter, &input_rd, rows)?;
                    x_rd = input_rd;
                    (Some((leaves, output_rd.shallow_clone())), output_rd.f_detach()?)
                }
                Activations::Recompute => {
                    let (layer, adapter) = (params.layer(index)?, adapted.layer_adapter(index)?);
                    (None, tch::no_grad(|| layer_forward(config, &layer, &adapter, &x_rd, rows))?)
                }
            };
            layers.push(LayerPass { input_rd: x_rd, kept });
            x_rd = output_rd;
            turn.pause();
        }
        let (last_rd, final_norm) = (leaf(&x_rd)?, leaf(&params.final_norm()?)?);
        let hidden_md = last_norm(&last_rd, &final_norm, predicting, config.rms_norm_eps)?;
        Ok(Self { adapted, rows, layers, last_rd, final_norm, hidden_md })
    }

    /// Normed predicting rows without their graph (M x D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn hidden(&self) -> Result<Tensor, TorchError> {
        Ok(self.hidden_md.f_detach()?)
    }

    /// Adds the gradients of everything below the head to `gradients`, given the gradient of the loss with respect to
    /// [`Self::hidden`].
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn backward(
        self,
        hidden_grad_md: &Tensor,
        gradients: &Gradients,
        turn: &mut LearnerTurn,
    ) -> Result<(), TorchError> {
        let config = self.adapted.model.layout().config();
        let is_whole = self.adapted.adapter.is_none();
        let mut from_head =
            pull_back(&self.hidden_md, hidden_grad_md, &[&self.last_rd, &self.final_norm])?.into_iter();
        let mut grad_rd = next(&mut from_head)?;
        if is_whole {
            gradients.add(&gradients.params.final_norm()?, &next(&mut from_head)?)?;
        }
        for (index, pass) in self.layers.into_iter().enumerate().rev() {
            turn.pause();
            let index = index as i64;
            let (leaves, input_rd, output_rd) = match pass.kept {
                Some((leaves, output_rd)) => (leaves, pass.input_rd, output_rd),
                None => {
                    let (leaves, input_rd) = (Leaves::new(self.adapted, index)?, leaf(&pass.input_rd)?);
                    let output_rd =
                        layer_forward(config, &leaves.layer, &leaves.adapter, &input_rd, self.rows)?;
                    (leaves, input_rd, output_rd)
                }
            };
            let mut inputs = vec![&input_rd];
            inputs.extend(leaves.trained());
            let mut grads = pull_back(&output_rd, &grad_rd, &inputs)?.into_iter();
            grad_rd = next(&mut grads)?;
            gradients.add_layer(index, grads)?;
        }
        if !is_whole {
            return Ok(());
        }
        let (mut embedding, grad_rd) = (gradients.params.embedding()?, in_fp32(&grad_rd)?);
        let _ = tch::no_grad(|| embedding.f_index_add_(0, self.rows.ids(), &grad_rd))?;
        Ok(())
    }
}

/// Normed predicting rows of a forward pass without gradients (M x D).
///
/// # Errors
/// [`TorchError`] from libtorch.
pub(crate) fn hidden_only(
    adapted: Adapted<'_>,
    rows: &PackedRows,
    predicting: &Tensor,
    turn: &mut LearnerTurn,
) -> Result<Tensor, TorchError> {
    tch::no_grad(|| {
        let params = adapted.model;
        let config = params.layout().config();
        let mut x_rd = embed(params, rows)?;
        for index in 0..config.num_hidden_layers {
            x_rd = layer_forward(config, &params.layer(index)?, &adapted.layer_adapter(index)?, &x_rd, rows)?;
            turn.pause();
        }
        last_norm(&x_rd, &params.final_norm()?, predicting, config.rms_norm_eps)
    })
}

/// The output matrix (V x D) in fp32, as used for logits.
///
/// # Errors
/// [`TorchError`] from libtorch.
pub(crate) fn head_of(params: &Params) -> Result<Tensor, TorchError> {
    in_fp32(&params.head()?)
}

/// Normed predicting rows (I4).
fn last_norm(x_rd: &Tensor, weight: &Tensor, predicting: &Tensor, eps: f64) -> Result<Tensor, TorchError> {
    rms_norm(&in_fp32(&x_rd.f_index_select(0, predicting)?)?, &in_fp32(weight)?, eps)
}

/// Converts to fp32; an fp32 tensor is returned as it came.
fn in_fp32(tensor: &Tensor) -> Result<Tensor, TorchError> {
    Ok(tensor.f_to_kind(Kind::Float)?)
}

fn embed(params: &Params, rows: &PackedRows) -> Result<Tensor, TorchError> {
    tch::no_grad(|| Ok(params.embedding()?.f_index_select(0, rows.ids())?))
}

fn leaf(x: &Tensor) -> Result<Tensor, TorchError> {
    Ok(x.f_detach()?.f_set_requires_grad(true)?)
}

/// The gradient of `sum(output * grad)` with respect to each input: the only backward pass that tch offers.
fn pull_back(output: &Tensor, grad: &Tensor, inputs: &[&Tensor]) -> Result<Vec<Tensor>, TorchError> {
    let product = output.f_mul(grad)?.f_sum(output.f_kind()?)?;
    Ok(Tensor::f_run_backward(&[product], inputs, false, false)?)
}

fn next(grads: &mut impl Iterator<Item = Tensor>) -> Result<Tensor, TorchError> {
    grads
        .next()
        .ok_or_else(|| TorchError::Model("libtorch gave fewer gradients than were asked for".to_owned()))
}

/// Gradients of all trained parameters, in their layout.
#[derive(Debug)]
pub(crate) struct Gradients {
    pub(crate) params: Params,
}

impl Gradients {
    pub(crate) fn zeros(layout: Arc<ParamLayout>, device: tch::Device) -> Result<Self, TorchError> {
        Ok(Self { params: Params::zeros(layout, device)? })
    }

    pub(crate) fn zero(&self) -> Result<(), TorchError> {
        let _ = self.params.flat().shallow_clone().f_zero_()?;
        Ok(())
    }

    /// Adds the gradients of a layer's trained tensors, in their order.
    fn add_layer(&self, index: i64, grads: impl Iterator<Item = Tensor>) -> Result<(), TorchError> {
        if self.params.layout().lora().is_some() {
            let places = self.params.layer_adapter(index)?;
            return places.all().into_iter().zip(grads).try_for_each(|(place, grad)| self.add(place, &grad));
        }
        let places = self.params.layer(index)?;
        places.all().into_iter().zip(grads).try_for_each(|(place, grad)| self.add(place, &grad))
    }

    /// Adds to a view into this buffer.
    pub(crate) fn add(&self, place: &Tensor, grad: &Tensor) -> Result<(), TorchError> {
        let _ = tch::no_grad(|| place.shallow_clone().f_add_(grad))?;
        Ok(())
    }
}
