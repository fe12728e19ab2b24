//! The output matrix: log-probabilities of chosen tokens, forward and backward, without a graph over the vocabulary.
//!
//! The derivative of a chosen log-probability with respect to the logits is `(onehot - softmax) / T`, and that of the
//! entropy H is `-softmax (log softmax + H) / T`. So autograd never needs a matrix of rows x vocabulary; rows are processed
//! in chunks, and logits that do not fit into memory are computed twice. Several log-probabilities of a row can be chosen:
//! that of the next token, and those of candidates.
//!
//! I1. Log-probabilities are over the full vocabulary, of `logits / T`, in fp32.
//!
//! Shapes: M predicting rows, V vocabulary, D hidden size, C rows of a chunk, K candidates of a row.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::backward::Gradients;
use crate::error::TorchError;

/// Elements of logits that are held at once: 256 MiB in fp32.
const HELD_ELEMENTS: i64 = 64 << 20;

/// Tokens to score in each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Next token (M), i64.
    pub(crate) targets_m: &'a Tensor,
    /// Temperature (M), fp32.
    pub(crate) temperatures_m: &'a Tensor,
    /// Candidates (M x K), i64.
    pub(crate) candidates_mk: Option<&'a Tensor>,
}

/// Values that a forward pass keeps for [`Head::backward`].
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
    /// Log-softmax, if there is only one chunk.
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

    /// Takes the derivatives of the loss with respect to each log-probability (M, and M x K for the candidates) and each
    /// entropy (M, or none). Adds the gradient of the weight, if it is trained, and returns that of the hidden rows (M x
    /// D).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub(crate) fn backward(
        mut self,
        by_target: &[f32],
        by_candidate: &[f32],
        by_entropy: &[f32],
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
        let of_entropies = if by_entropy.is_empty() {
            None
        } else {
            let on_device =
                |values: &[f32]| Ok::<_, TorchError>(Tensor::f_from_slice(values)?.f_to_device(device)?);
            Some((on_device(by_entropy)?, on_device(&self.entropies)?))
        };
        // With an adapter the head is not trained and has no gradient.
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
                let factor = match &of_entropies {
                    // The derivative of an entropy with respect to a logit is -p (log p + H) / T.
                    Some((by_entropy_m, entropies_m)) => {
                        let scale_c1 =
                            rows_of(by_entropy_m, &rows)?.f_unsqueeze(1)?.f_div(&temperatures_c1)?;
                        let entropy_c1 = rows_of(entropies_m, &rows)?.f_unsqueeze(1)?;
                        log_softmax_cv.f_add(&entropy_c1)?.f_mul(&scale_c1)?.f_add(&total_c1)?.f_neg()?
                    }
                    None => total_c1.f_neg()?,
                };
                let mut grad_cv = log_softmax_cv.f_exp()?.f_mul(&factor)?;
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

/// Number of rows in a chunk.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tch::Device;

    use super::*;
    use crate::model::{ModelConfig, ParamLayout, init_params};

    /// Compares derivatives for arbitrary weights of log-probabilities, candidates and entropies with PyTorch's autograd.
    fn check(with_entropies: bool, keep: Keep) {
        const VOCABULARY: i64 = 23;
        let config = ModelConfig::tiny(VOCABULARY, 1);
        let width = config.hidden_size;
        let layout = Arc::new(ParamLayout::new(config));
        let params = init_params(Arc::clone(&layout), 3, Device::Cpu).unwrap();
        let gradients = Gradients::zeros(layout, Device::Cpu).unwrap();
        let wave =
            |count: i64, salt: f64| ((Tensor::arange(count, (Kind::Float, Device::Cpu)) + salt) * 1.7).sin();
        let rows = 6;
        let hidden_md = wave(rows * width, 0.5).view([rows, width]);
        // Larger weights than in a fresh model, because otherwise every row is nearly uniform.
        let weight_vd =
            params.head().unwrap() * 20.0 + wave(VOCABULARY * width, 9.0).view([VOCABULARY, width]) * 0.1;
        let targets_m = Tensor::from_slice(&[3i64, 0, 22, 7, 7, 1]);
        let temperatures_m = Tensor::from_slice(&[1.0f32, 0.7, 1.0, 1.3, 0.5, 1.0]);
        let candidates_mk = Tensor::from_slice(&[1i64, 2, 0, 5, 22, 3, 7, 8, 9, 10, 1, 1]).view([rows, 2]);
        let values = |salt: f64, count: i64| -> Vec<f32> { Vec::try_from(wave(count, salt)).unwrap() };
        let (by_target, by_candidate) = (values(1.0, rows), values(2.0, 2 * rows));
        let by_entropy = if with_entropies { values(3.0, rows) } else { Vec::new() };

        let asked = Asked {
            targets_m: &targets_m,
            temperatures_m: &temperatures_m,
            candidates_mk: Some(&candidates_mk),
        };
        let head = Head::forward(&weight_vd, &hidden_md, asked, keep).unwrap();
        let hidden_grad = head.backward(&by_target, &by_candidate, &by_entropy, &gradients).unwrap();

        let leaf = |tensor: &Tensor| tensor.copy().set_requires_grad(true);
        let (hidden, weight) = (leaf(&hidden_md), leaf(&weight_vd));
        let log_softmax = (hidden.mm(&weight.tr()) / temperatures_m.unsqueeze(1)).log_softmax(1, Kind::Float);
        let chosen = log_softmax.gather(1, &targets_m.unsqueeze(1), false).squeeze_dim(1);
        let of_candidates = log_softmax.gather(1, &candidates_mk, false);
        let entropies =
            -(log_softmax.exp() * &log_softmax).sum_dim_intlist([1i64].as_slice(), false, Kind::Float);
        let mut loss = (chosen * Tensor::from_slice(&by_target)).sum(Kind::Float)
            + (of_candidates * Tensor::from_slice(&by_candidate).view([rows, 2])).sum(Kind::Float);
        if with_entropies {
            loss += (entropies * Tensor::from_slice(&by_entropy)).sum(Kind::Float);
        }
        loss.backward();
        for (got, expected) in
            [(hidden_grad, hidden.grad()), (gradients.params.head().unwrap(), weight.grad())]
        {
            let distance = f64::try_from((&got - &expected).norm() / expected.norm()).unwrap();
            assert!(distance < 1e-5, "entropies {with_entropies}, {keep:?}: {distance:e}");
        }
    }

    #[test]
    fn the_way_back_is_the_one_of_autograd() {
        for keep in [Keep::Nothing, Keep::LogSoftmax] {
            check(false, keep);
            check(true, keep);
        }
    }
}
