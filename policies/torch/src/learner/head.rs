//! The output matrix: log-probabilities of chosen tokens, and the way back, without a graph over the vocabulary.
//!
//! The derivative of a chosen log-probability by the logits is known: `(onehot - softmax) / T`. So no autograd sees a
//! matrix of rows by vocabulary; rows go through in chunks, and logits that do not fit are computed twice.
//!
//! I1. Log-probabilities are over the full vocabulary, of `logits / T`, in fp32.
//!
//! Shapes: M rows that predict, V vocabulary, D hidden size, C rows of a chunk.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::backward::Gradients;
use crate::error::TorchError;

/// Elements of logits that are held at once: 256 MiB in fp32.
const HELD_ELEMENTS: i64 = 64 << 20;

/// Forward pass through the head.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    weight_vd: &'a Tensor,
    hidden_md: &'a Tensor,
    /// Token that follows each row (M), i64.
    targets_m: &'a Tensor,
    /// Temperature of each row (M), fp32.
    temperatures_m: &'a Tensor,
    chunk: i64,
    /// Log-softmax of the only chunk, when there is only one.
    kept_cv: Option<Tensor>,
    /// Log-probability of each target (M).
    pub(crate) logprobs: Vec<f32>,
    /// Entropy of each row (M), nats.
    pub(crate) entropies: Vec<f32>,
}

impl<'a> Head<'a> {
    /// Computes log-probabilities and entropies. `keep` says whether [`Self::backward`] will be called.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn forward(
        weight_vd: &'a Tensor,
        hidden_md: &'a Tensor,
        targets_m: &'a Tensor,
        temperatures_m: &'a Tensor,
        keep: bool,
    ) -> Result<Self, TorchError> {
        let vocabulary = weight_vd.size()[0];
        let chunk = (HELD_ELEMENTS / vocabulary).max(1);
        let mut head = Self {
            weight_vd,
            hidden_md,
            targets_m,
            temperatures_m,
            chunk,
            kept_cv: None,
            logprobs: Vec::new(),
            entropies: Vec::new(),
        };
        tch::no_grad(|| {
            for rows in head.chunks() {
                let log_softmax_cv = head.log_softmax(&rows)?;
                let targets_c1 = head.rows_of(head.targets_m, &rows)?.f_unsqueeze(1)?;
                let chosen_c = log_softmax_cv.f_gather(1, &targets_c1, false)?.f_squeeze_dim(1)?;
                let entropy_c = log_softmax_cv
                    .f_exp()?
                    .f_mul(&log_softmax_cv)?
                    .f_sum_dim_intlist([1i64].as_slice(), false, Kind::Float)?
                    .f_neg()?;
                append(&mut head.logprobs, &chosen_c)?;
                append(&mut head.entropies, &entropy_c)?;
                if keep && rows.start == 0 && rows.end == head.rows() {
                    head.kept_cv = Some(log_softmax_cv);
                }
            }
            Ok(head)
        })
    }

    /// Given the loss's derivative by each log-probability (M): adds the gradient of the weight, returns that of the
    /// hidden rows (M x D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn backward(
        mut self,
        derivatives: &[f32],
        gradients: &Gradients,
    ) -> Result<Tensor, TorchError> {
        let device = self.hidden_md.device();
        let derivatives_m = Tensor::f_from_slice(derivatives)?.f_to_device(device)?;
        let mut weight_grad = gradients.params.head()?;
        tch::no_grad(|| {
            let mut grads = Vec::new();
            for rows in self.chunks() {
                let log_softmax_cv = match self.kept_cv.take() {
                    Some(kept) => kept,
                    None => self.log_softmax(&rows)?,
                };
                // (onehot - softmax) * derivative / T, made in place of the log-softmax.
                let scale_c1 = self
                    .rows_of(&derivatives_m, &rows)?
                    .f_div(&self.rows_of(self.temperatures_m, &rows)?)?
                    .f_unsqueeze(1)?;
                let mut grad_cv = log_softmax_cv.f_exp()?.f_mul(&scale_c1.f_neg()?)?;
                let targets_c1 = self.rows_of(self.targets_m, &rows)?.f_unsqueeze(1)?;
                let _ = grad_cv.f_scatter_add_(1, &targets_c1, &scale_c1)?;
                let hidden_cd = self.rows_of(self.hidden_md, &rows)?;
                let _ = weight_grad.f_addmm_(&grad_cv.f_tr()?, &hidden_cd)?;
                grads.push(grad_cv.f_mm(self.weight_vd)?);
            }
            Ok(if grads.len() == 1 { grads.swap_remove(0) } else { Tensor::f_cat(&grads, 0)? })
        })
    }

    fn rows(&self) -> i64 {
        self.hidden_md.size()[0]
    }

    fn chunks(&self) -> Vec<Range<i64>> {
        let rows = self.rows();
        (0..rows).step_by(self.chunk as usize).map(|start| start..(start + self.chunk).min(rows)).collect()
    }

    fn rows_of(&self, tensor: &Tensor, rows: &Range<i64>) -> Result<Tensor, TorchError> {
        Ok(tensor.f_narrow(0, rows.start, rows.end - rows.start)?)
    }

    fn log_softmax(&self, rows: &Range<i64>) -> Result<Tensor, TorchError> {
        let logits_cv = self.rows_of(self.hidden_md, rows)?.f_mm(&self.weight_vd.f_tr()?)?;
        let temperatures_c1 = self.rows_of(self.temperatures_m, rows)?.f_unsqueeze(1)?;
        Ok(logits_cv.f_div(&temperatures_c1)?.f_log_softmax(1, Kind::Float)?)
    }
}

fn append(values: &mut Vec<f32>, tensor: &Tensor) -> Result<(), TorchError> {
    let tensor = tensor.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
    let start = values.len();
    values.resize(start + tensor.numel(), 0.0);
    tensor.f_copy_data(&mut values[start..], tensor.numel())?;
    Ok(())
}
