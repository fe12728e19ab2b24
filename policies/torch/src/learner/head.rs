//! The output matrix: log-probabilities of chosen tokens, and the way back, without a graph over the vocabulary.
//!
//! The derivative of a chosen log-probability by the logits is known: `(onehot - softmax) / T`. So no autograd sees a
//! matrix of rows by vocabulary; rows go through in chunks, and logits that do not fit are computed twice. Of a row several
//! log-probabilities can be chosen: that of the token that follows, and those of candidates.
//!
//! I1. Log-probabilities are over the full vocabulary, of `logits / T`, in fp32.
//!
//! Shapes: M rows that predict, V vocabulary, D hidden size, C rows of a chunk, K candidates of a row.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::backward::Gradients;
use crate::error::TorchError;

/// Elements of logits that are held at once: 256 MiB in fp32.
const HELD_ELEMENTS: i64 = 64 << 20;

/// What is asked of each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Token that follows (M), i64.
    pub(crate) targets_m: &'a Tensor,
    /// Temperature (M), fp32.
    pub(crate) temperatures_m: &'a Tensor,
    /// Tokens that are scored beside it (M x K), i64.
    pub(crate) candidates_mk: Option<&'a Tensor>,
}

/// What a forward pass keeps for [`Head::backward`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    LogSoftmax,
}

/// Forward pass through the head.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    weight_vd: &'a Tensor,
    hidden_md: &'a Tensor,
    asked: Asked<'a>,
    chunk: i64,
    /// Log-softmax of the only chunk, when there is only one.
    kept_cv: Option<Tensor>,
    /// Log-probability of each target (M).
    pub(crate) logprobs: Vec<f32>,
    /// Entropy of each row (M), nats.
    pub(crate) entropies: Vec<f32>,
    /// Log-probability of each candidate (M x K).
    pub(crate) candidates: Vec<f32>,
}

impl<'a> Head<'a> {
    /// Computes log-probabilities and entropies.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn forward(
        weight_vd: &'a Tensor,
        hidden_md: &'a Tensor,
        asked: Asked<'a>,
        keep: Keep,
    ) -> Result<Self, TorchError> {
        let mut head = Self {
            weight_vd,
            hidden_md,
            asked,
            chunk: chunk_of(weight_vd),
            kept_cv: None,
            logprobs: Vec::new(),
            entropies: Vec::new(),
            candidates: Vec::new(),
        };
        tch::no_grad(|| {
            for rows in head.chunks() {
                let log_softmax_cv = head.log_softmax(&rows)?;
                let targets_c1 = rows_of(asked.targets_m, &rows)?.f_unsqueeze(1)?;
                let chosen_c = log_softmax_cv.f_gather(1, &targets_c1, false)?.f_squeeze_dim(1)?;
                let entropy_c = log_softmax_cv
                    .f_exp()?
                    .f_mul(&log_softmax_cv)?
                    .f_sum_dim_intlist([1i64].as_slice(), false, Kind::Float)?
                    .f_neg()?;
                append(&mut head.logprobs, &chosen_c)?;
                append(&mut head.entropies, &entropy_c)?;
                if let Some(candidates_mk) = asked.candidates_mk {
                    let candidates_ck = rows_of(candidates_mk, &rows)?;
                    append(&mut head.candidates, &log_softmax_cv.f_gather(1, &candidates_ck, false)?)?;
                }
                if keep == Keep::LogSoftmax && rows.start == 0 && rows.end == head.rows() {
                    head.kept_cv = Some(log_softmax_cv);
                }
            }
            Ok(head)
        })
    }

    /// Given the loss's derivative by each log-probability (M, and M x K of the candidates): adds the gradient of the weight where it is trained,
    /// returns that of the hidden rows (M x D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn backward(
        mut self,
        by_target: &[f32],
        by_candidate: &[f32],
        gradients: &Gradients,
    ) -> Result<Tensor, TorchError> {
        let device = self.hidden_md.device();
        let by_target_m = Tensor::f_from_slice(by_target)?.f_to_device(device)?;
        let by_candidate_mk = match self.asked.candidates_mk {
            Some(candidates_mk) => {
                let values = Tensor::f_from_slice(by_candidate)?.f_to_device(device)?;
                Some(values.f_view_as(candidates_mk)?)
            }
            None => None,
        };
        // A head that no adapter changes has no gradient.
        let is_whole = gradients.params.layout().lora().is_none();
        let mut weight_grad = is_whole.then(|| gradients.params.head()).transpose()?;
        tch::no_grad(|| {
            let mut grads = Vec::new();
            for rows in self.chunks() {
                let log_softmax_cv = match self.kept_cv.take() {
                    Some(kept) => kept,
                    None => self.log_softmax(&rows)?,
                };
                // (sum of onehot * derivative - softmax * sum of derivatives) / T, made in place of the log-softmax.
                let temperatures_c1 = rows_of(self.asked.temperatures_m, &rows)?.f_unsqueeze(1)?;
                let target_c1 = rows_of(&by_target_m, &rows)?.f_unsqueeze(1)?.f_div(&temperatures_c1)?;
                let of_candidates = match (&by_candidate_mk, self.asked.candidates_mk) {
                    (Some(by_candidate_mk), Some(candidates_mk)) => {
                        let scale_ck = rows_of(by_candidate_mk, &rows)?.f_div(&temperatures_c1)?;
                        Some((rows_of(candidates_mk, &rows)?, scale_ck))
                    }
                    _ => None,
                };
                let total_c1 = match &of_candidates {
                    Some((_, scale_ck)) => {
                        scale_ck.f_sum_dim_intlist([1i64].as_slice(), true, Kind::Float)?.f_add(&target_c1)?
                    }
                    None => target_c1.shallow_clone(),
                };
                let mut grad_cv = log_softmax_cv.f_exp()?.f_mul(&total_c1.f_neg()?)?;
                let targets_c1 = rows_of(self.asked.targets_m, &rows)?.f_unsqueeze(1)?;
                let _ = grad_cv.f_scatter_add_(1, &targets_c1, &target_c1)?;
                if let Some((candidates_ck, scale_ck)) = of_candidates {
                    let _ = grad_cv.f_scatter_add_(1, &candidates_ck, &scale_ck)?;
                }
                if let Some(weight_grad) = &mut weight_grad {
                    let hidden_cd = rows_of(self.hidden_md, &rows)?;
                    let _ = weight_grad.f_addmm_(&grad_cv.f_tr()?, &hidden_cd)?;
                }
                grads.push(grad_cv.f_mm(self.weight_vd)?);
            }
            Ok(if grads.len() == 1 { grads.swap_remove(0) } else { Tensor::f_cat(&grads, 0)? })
        })
    }

    fn rows(&self) -> i64 {
        self.hidden_md.size()[0]
    }

    fn chunks(&self) -> Vec<Range<i64>> {
        chunks(self.rows(), self.chunk)
    }

    fn log_softmax(&self, rows: &Range<i64>) -> Result<Tensor, TorchError> {
        let logits_cv = rows_of(self.hidden_md, rows)?.f_mm(&self.weight_vd.f_tr()?)?;
        let temperatures_c1 = rows_of(self.asked.temperatures_m, rows)?.f_unsqueeze(1)?;
        Ok(logits_cv.f_div(&temperatures_c1)?.f_log_softmax(1, Kind::Float)?)
    }
}

/// The `most` most probable tokens of each row, the most probable first.
///
/// # Errors
/// [`TorchError`] from libtorch.
pub(crate) fn most_probable(
    weight_vd: &Tensor,
    hidden_md: &Tensor,
    most: usize,
) -> Result<Vec<Vec<u32>>, TorchError> {
    let most = (most as i64).min(weight_vd.size()[0]);
    let mut found = Vec::new();
    tch::no_grad(|| {
        for rows in chunks(hidden_md.size()[0], chunk_of(weight_vd)) {
            let logits_cv = rows_of(hidden_md, &rows)?.f_mm(&weight_vd.f_tr()?)?;
            let (_, ids_ck) = logits_cv.f_topk(most, 1, true, true)?;
            let ids: Vec<i64> = Vec::try_from(ids_ck.f_to_device(tch::Device::Cpu)?.f_view([-1])?)?;
            found.extend(
                ids.chunks(most.max(1) as usize).map(|row| row.iter().map(|&id| id as u32).collect()),
            );
        }
        Ok(found)
    })
}

/// Rows that go through together.
fn chunk_of(weight_vd: &Tensor) -> i64 {
    (HELD_ELEMENTS / weight_vd.size()[0]).max(1)
}

fn chunks(rows: i64, chunk: i64) -> Vec<Range<i64>> {
    (0..rows).step_by(chunk as usize).map(|start| start..(start + chunk).min(rows)).collect()
}

fn rows_of(tensor: &Tensor, rows: &Range<i64>) -> Result<Tensor, TorchError> {
    Ok(tensor.f_narrow(0, rows.start, rows.end - rows.start)?)
}

fn append(values: &mut Vec<f32>, tensor: &Tensor) -> Result<(), TorchError> {
    let tensor = tensor.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
    let start = values.len();
    values.resize(start + tensor.numel(), 0.0);
    tensor.f_copy_data(&mut values[start..], tensor.numel())?;
    Ok(())
}
