//! Forward and backward pass of one piece.
//!
//! I1. Gradients are added to the given buffer. I2. A layer keeps only the values that its derivative needs and that are
//! expensive to recompute: norms and rotated queries and keys are computed twice.
//!
//! Shapes: letters of [`crate::ModelConfig`]; R rows of the piece, M predictions.

use std::sync::Arc;

use tch::Tensor;

use super::attention::{Attend, AttendBack, Heads, Room};
use super::elementwise::{GatedBack, NormBack, Turn, TurnBack, Turning};
use super::head::{Predict, PredictBack, Predicted, largest_logits};
use super::piece::Piece;
use crate::ModelConfig;
use crate::engine::audited::{GemmRows, Matrix, dispatch};
use crate::engine::kernels::{GatedUnit, RmsNorm};
use crate::engine::values;
use crate::error::TorchError;
use crate::learner::backward::Activations;
use crate::learner::micro_batch::{Derivatives, Predictions};
use crate::model::{LayerParams, Params, Rope};

/// Elements of logits that are held at once.
const LOGITS: usize = 1 << 22;

/// The parameters in the form of a pass: matrices as views, norms as slices.
pub(super) struct Weights {
    layers: Vec<(LayerParams, Norms)>,
    /// V x D.
    embedding: Tensor,
    /// V x D.
    head: Tensor,
    /// D.
    final_norm: Vec<f32>,
}

struct Norms {
    input: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    post: Vec<f32>,
}

impl Weights {
    pub(super) fn of(params: &Params) -> Result<Self, TorchError> {
        let layer = |index| -> Result<(LayerParams, Norms), TorchError> {
            let layer = params.layer(index)?;
            let norms = Norms {
                input: values(&layer.input_norm)?,
                q: values(&layer.q_norm)?,
                k: values(&layer.k_norm)?,
                post: values(&layer.post_norm)?,
            };
            Ok((layer, norms))
        };
        Ok(Self {
            layers: (0..params.layout().config().num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
            embedding: params.embedding()?,
            head: params.head()?,
            final_norm: values(&params.final_norm()?)?,
        })
    }
}

/// Cosines and sines of all positions, P x E/2 each.
#[derive(Debug)]
pub(super) struct Angles {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Angles {
    pub(super) fn of(config: &ModelConfig, rope: &Rope) -> Result<Self, TorchError> {
        // Both halves of a table are the same.
        let half = |table: &Tensor| values(&table.f_narrow(1, 0, config.head_dim / 2)?);
        let (cos, sin) = rope.tables();
        Ok(Self { cos: half(cos)?, sin: half(sin)? })
    }
}

/// Buffers for a piece, reused for the next one.
#[derive(Debug)]
pub(super) struct Pass {
    angles: Arc<Angles>,
    heads: Heads,
    eps: f32,
    activations: Activations,
    /// R x D: input of each layer, and output of the last.
    x: Vec<Matrix>,
    /// Kept values of each layer, or of the current one.
    kept: Vec<Kept>,
    /// R x D.
    normed: Matrix,
    /// R x (H + 2 K) E.
    turned: Matrix,
    /// R x (H + 2 K) E.
    d_qkv: Matrix,
    /// R x H E.
    d_attended: Matrix,
    /// R x F: the gated unit, or the derivative with respect to it.
    unit: Matrix,
    /// R x D: derivative with respect to the residual stream.
    d_x: Matrix,
    /// R x D.
    d_normed: Matrix,
    /// M x D.
    hidden: Matrix,
    /// M x D.
    d_hidden: Matrix,
    /// At most [`LOGITS`] elements, or one row.
    logits: Matrix,
    logits_rows: usize,
    predicted: Vec<Predicted>,
    room: Room,
}

/// Values that a layer's derivative needs.
#[derive(Debug)]
struct Kept {
    /// R x (H + 2 K) E.
    qkv: Matrix,
    /// R x H.
    log_sums: Matrix,
    /// R x H E.
    attended: Matrix,
    /// R x D: between attention and the gated unit.
    middle: Matrix,
    /// R x 2 F.
    gate_up: Matrix,
}

impl Pass {
    pub(super) fn new(
        config: &ModelConfig,
        angles: Arc<Angles>,
        activations: Activations,
    ) -> Result<Self, TorchError> {
        let (d, f) = (config.hidden_size as usize, config.intermediate_size as usize);
        let heads = Heads {
            queries: config.num_attention_heads as usize,
            keys: config.num_key_value_heads as usize,
            size: config.head_dim as usize,
        };
        let layers = config.num_hidden_layers as usize;
        let matrix = |columns: usize| Matrix::zeros(1, columns);
        let kept = || -> Result<Kept, TorchError> {
            Ok(Kept {
                qkv: matrix(heads.width())?,
                log_sums: matrix(heads.queries)?,
                attended: matrix(heads.queries * heads.size)?,
                middle: matrix(d)?,
                gate_up: matrix(2 * f)?,
            })
        };
        let kept_layers = match activations {
            Activations::Keep => layers,
            Activations::Recompute => 1,
        };
        let vocabulary = config.vocab_size as usize;
        Ok(Self {
            angles,
            heads,
            eps: config.rms_norm_eps as f32,
            activations,
            x: (0..=layers).map(|_| matrix(d)).collect::<Result<_, _>>()?,
            kept: (0..kept_layers).map(|_| kept()).collect::<Result<_, _>>()?,
            normed: matrix(d)?,
            turned: matrix(heads.width())?,
            d_qkv: matrix(heads.width())?,
            d_attended: matrix(heads.queries * heads.size)?,
            unit: matrix(f)?,
            d_x: matrix(d)?,
            d_normed: matrix(d)?,
            hidden: matrix(d)?,
            d_hidden: matrix(d)?,
            logits: matrix(vocabulary)?,
            logits_rows: (LOGITS / vocabulary).max(1),
            predicted: Vec::new(),
            room: Room::default(),
        })
    }

    /// Log-probabilities and entropies of the predictions, and of their candidates.
    pub(super) fn predict(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
    ) -> Result<Predictions, TorchError> {
        self.hidden_of(weights, piece)?;
        self.predicted.clear();
        let with_candidates = piece.candidates.iter().any(|candidates| !candidates.is_empty());
        let mut of_candidates = Vec::new();
        for start in (0..piece.targets.len()).step_by(self.logits_rows) {
            for row in 0..self.some_logits(weights, piece, start)? {
                let at = start + row;
                let (target, temperature) = (piece.targets[at], piece.temperatures[at]);
                let logits = self.logits.row_mut(row);
                // Candidates' logits minus the target's, taken before exponentials overwrite them.
                let above: Vec<f32> = piece.candidates[at]
                    .iter()
                    .map(|&candidate| (logits[candidate as usize] - logits[target]) / temperature)
                    .collect();
                let predicted = dispatch(Predict { logits, target, temperature });
                if with_candidates {
                    of_candidates.push(above.into_iter().map(|above| predicted.logprob + above).collect());
                }
                self.predicted.push(predicted);
            }
        }
        Ok(Predictions {
            logprobs: self.predicted.iter().map(|predicted| predicted.logprob).collect(),
            entropies: self.predicted.iter().map(|predicted| predicted.entropy).collect(),
            candidates: of_candidates,
        })
    }

    /// The `most` most probable tokens of each prediction (M rows).
    pub(super) fn most_probable(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
        most: usize,
    ) -> Result<Vec<Vec<u32>>, TorchError> {
        self.hidden_of(weights, piece)?;
        let mut found = Vec::with_capacity(piece.targets.len());
        for start in (0..piece.targets.len()).step_by(self.logits_rows) {
            for row in 0..self.some_logits(weights, piece, start)? {
                found.push(largest_logits(self.logits.row(row), most));
            }
        }
        Ok(found)
    }

    /// Normed predicting rows.
    fn hidden_of(&mut self, weights: &Weights, piece: &Piece<'_>) -> Result<(), TorchError> {
        self.check(weights, piece)?;
        self.reserve(piece)?;
        self.x[0].gather(&weights.embedding, &piece.ids)?;
        for index in 0..weights.layers.len() {
            self.layer(weights, piece, index)?;
        }
        let last = &self.x[weights.layers.len()];
        for (place, &row) in piece.predicting.iter().enumerate() {
            let (x, out) = (last.row(row), self.hidden.row_mut(place));
            dispatch(RmsNorm { x, weight: &weights.final_norm, eps: self.eps, out });
        }
        Ok(())
    }

    /// Adds the gradients of all parameters, given the derivatives of the loss with respect to the log-probabilities of the
    /// piece that was predicted last.
    pub(super) fn back(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
        derivatives: &Derivatives,
        gradients: &Params,
    ) -> Result<(), TorchError> {
        self.head_back(weights, piece, derivatives, gradients)?;
        for index in (0..weights.layers.len()).rev() {
            if self.activations == Activations::Recompute {
                self.layer(weights, piece, index)?;
            }
            self.layer_back(weights, piece, index, gradients)?;
        }
        self.d_x.scatter_add(&mut gradients.embedding()?, &piece.ids)
    }

    fn check(&self, weights: &Weights, piece: &Piece<'_>) -> Result<(), TorchError> {
        let longest = self.angles.cos.len() / (self.heads.size / 2);
        if let Some(position) = piece.positions.iter().find(|&&position| position >= longest) {
            let length = position + 1;
            return Err(TorchError::Model(format!(
                "a segment of at least {length} tokens; 1 to {longest} are possible"
            )));
        }
        let vocabulary = weights.head.size()[0] as usize;
        let candidates = piece.candidates.iter().flat_map(|row| row.iter().map(|&id| id as usize));
        match piece.targets.iter().copied().chain(candidates).find(|&token| token >= vocabulary) {
            Some(target) => Err(TorchError::Model(format!("token {target} is none of {vocabulary}"))),
            None => Ok(()),
        }
    }

    fn reserve(&mut self, piece: &Piece<'_>) -> Result<(), TorchError> {
        let (rows, predictions) = (piece.ids.len(), piece.targets.len());
        for x in &mut self.x {
            x.reserve(rows)?;
        }
        for Kept { qkv, log_sums, attended, middle, gate_up } in &mut self.kept {
            for matrix in [qkv, log_sums, attended, middle, gate_up] {
                matrix.reserve(rows)?;
            }
        }
        let Self { normed, turned, d_qkv, d_attended, unit, d_x, d_normed, .. } = self;
        for matrix in [normed, turned, d_qkv, d_attended, unit, d_x, d_normed] {
            matrix.reserve(rows)?;
        }
        self.hidden.reserve(predictions)?;
        self.d_hidden.reserve(predictions)?;
        self.logits.reserve(self.logits_rows.min(predictions))
    }

    /// Computes logits from prediction `start`; returns the number of predictions.
    fn some_logits(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
        start: usize,
    ) -> Result<usize, TorchError> {
        let rows = self.logits_rows.min(piece.targets.len() - start);
        self.logits.multiply(&self.hidden, start, rows, &weights.head.f_tr()?, GemmRows::All)?;
        Ok(rows)
    }

    fn head_back(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
        derivatives: &Derivatives,
        gradients: &Params,
    ) -> Result<(), TorchError> {
        let predictions = piece.targets.len();
        let mut d_head = gradients.head()?;
        for start in (0..predictions).step_by(self.logits_rows) {
            let rows = self.logits_rows.min(predictions - start);
            let all_are_there = rows == predictions;
            if !all_are_there {
                self.some_logits(weights, piece, start)?;
            }
            for row in 0..rows {
                let (at, exponentials) = (start + row, self.logits.row_mut(row));
                let (target, temperature) = (piece.targets[at], piece.temperatures[at]);
                if !all_are_there {
                    dispatch(Predict { logits: &mut *exponentials, target, temperature });
                }
                let (sum, derivative) = (self.predicted[at].sum, derivatives.by_sampled[at]);
                let of_candidates = derivatives.by_candidates.get(at).map_or(&[][..], Vec::as_slice);
                let total = derivative + of_candidates.iter().sum::<f32>();
                let by_entropy = derivatives.by_entropies.get(at);
                let entropy = by_entropy.map(|&by_entropy| (by_entropy, self.predicted[at].entropy));
                dispatch(PredictBack {
                    exponentials: &mut *exponentials,
                    target,
                    temperature,
                    sum,
                    derivative,
                    total,
                    entropy,
                });
                for (&candidate, derivative) in piece.candidates[at].iter().zip(of_candidates) {
                    exponentials[candidate as usize] += derivative / temperature;
                }
            }
            self.logits.add_products(&self.hidden, start, rows, &mut d_head)?;
            self.d_hidden.multiply_into(start, &self.logits, rows, &weights.head)?;
        }
        let last = &self.x[weights.layers.len()];
        let mut d_final_norm = vec![0.0; weights.final_norm.len()];
        first_mut(&mut self.d_x, piece.ids.len()).fill(0.0);
        for (place, &row) in piece.predicting.iter().enumerate() {
            dispatch(NormBack {
                x: last.row(row),
                weight: &weights.final_norm,
                eps: self.eps,
                d_out: self.d_hidden.row(place),
                d_x: self.d_x.row_mut(row),
                d_weight: &mut d_final_norm,
            });
        }
        add(gradients.final_norm()?, &d_final_norm)
    }

    fn turning<'a>(
        angles: &'a Angles,
        heads: Heads,
        eps: f32,
        norms: &'a Norms,
        piece: &'a Piece<'_>,
    ) -> Turning<'a> {
        let Angles { cos, sin } = angles;
        Turning { heads, positions: &piece.positions, cos, sin, q_norm: &norms.q, k_norm: &norms.k, eps }
    }

    /// One layer: `x[index]` to `x[index + 1]`.
    fn layer(&mut self, weights: &Weights, piece: &Piece<'_>, index: usize) -> Result<(), TorchError> {
        let (rows, eps, heads, how) = (piece.ids.len(), self.eps, self.heads, GemmRows::All);
        let (layer, norms) = &weights.layers[index];
        let turning = Self::turning(&self.angles, heads, eps, norms, piece);
        let slot = index.min(self.kept.len() - 1);
        let Kept { qkv, log_sums, attended, middle, gate_up } = &mut self.kept[slot];
        let (before, after) = self.x.split_at_mut(index + 1);
        let (x, next) = (first(&before[index], rows), &mut after[0]);

        dispatch(RmsNorm { x, weight: &norms.input, eps, out: first_mut(&mut self.normed, rows) });
        qkv.multiply(&self.normed, 0, rows, &layer.qkv.f_tr()?, how)?;
        dispatch(Turn { how: turning, qkv: first(qkv, rows), out: first_mut(&mut self.turned, rows) });
        dispatch(Attend {
            heads,
            spans: &piece.spans,
            qkv: first(&self.turned, rows),
            out: first_mut(attended, rows),
            log_sums: first_mut(log_sums, rows),
            room: &mut self.room,
        });
        first_mut(middle, rows).copy_from_slice(x);
        middle.multiply_add(attended, rows, &layer.o.f_tr()?)?;

        let out = first_mut(&mut self.normed, rows);
        dispatch(RmsNorm { x: first(middle, rows), weight: &norms.post, eps, out });
        gate_up.multiply(&self.normed, 0, rows, &layer.gate_up.f_tr()?, how)?;
        let (width, out) = (self.unit.columns(), first_mut(&mut self.unit, rows));
        dispatch(GatedUnit { gate_up: first(gate_up, rows), width, out });
        first_mut(next, rows).copy_from_slice(first(middle, rows));
        next.multiply_add(&self.unit, rows, &layer.down.f_tr()?)
    }

    /// Replaces `d_x` with respect to the layer's output by that with respect to its input. Overwrites the kept values.
    fn layer_back(
        &mut self,
        weights: &Weights,
        piece: &Piece<'_>,
        index: usize,
        gradients: &Params,
    ) -> Result<(), TorchError> {
        let (rows, eps, heads, how) = (piece.ids.len(), self.eps, self.heads, GemmRows::All);
        let (layer, norms) = &weights.layers[index];
        let turning = Self::turning(&self.angles, heads, eps, norms, piece);
        let slot = index.min(self.kept.len() - 1);
        let Kept { qkv, log_sums, attended, middle, gate_up } = &mut self.kept[slot];
        let x = first(&self.x[index], rows);
        let mut into = gradients.layer(index as i64)?;
        let d = norms.input.len();

        self.unit.multiply(&self.d_x, 0, rows, &layer.down, how)?;
        let width = self.unit.columns();
        let unit = first_mut(&mut self.unit, rows);
        dispatch(GatedBack { gate_up: first_mut(gate_up, rows), width, unit });
        self.d_x.add_products(&self.unit, 0, rows, &mut into.down)?;
        let out = first_mut(&mut self.normed, rows);
        dispatch(RmsNorm { x: first(middle, rows), weight: &norms.post, eps, out });
        gate_up.add_products(&self.normed, 0, rows, &mut into.gate_up)?;
        self.d_normed.multiply(gate_up, 0, rows, &layer.gate_up, how)?;
        let mut d_post = vec![0.0; d];
        dispatch(NormBack {
            x: first(middle, rows),
            weight: &norms.post,
            eps,
            d_out: first(&self.d_normed, rows),
            d_x: first_mut(&mut self.d_x, rows),
            d_weight: &mut d_post,
        });
        add(into.post_norm, &d_post)?;

        self.d_x.add_products(attended, 0, rows, &mut into.o)?;
        self.d_attended.multiply(&self.d_x, 0, rows, &layer.o, how)?;
        dispatch(Turn { how: turning, qkv: first(qkv, rows), out: first_mut(&mut self.turned, rows) });
        dispatch(AttendBack {
            heads,
            spans: &piece.spans,
            qkv: first(&self.turned, rows),
            out: first(attended, rows),
            log_sums: first(log_sums, rows),
            d_out: first(&self.d_attended, rows),
            d_qkv: first_mut(&mut self.d_qkv, rows),
            room: &mut self.room,
        });
        let (mut d_q_norm, mut d_k_norm) = (vec![0.0; heads.size], vec![0.0; heads.size]);
        dispatch(TurnBack {
            how: turning,
            qkv: first(qkv, rows),
            d_qkv: first_mut(&mut self.d_qkv, rows),
            d_q_norm: &mut d_q_norm,
            d_k_norm: &mut d_k_norm,
        });
        add(into.q_norm, &d_q_norm)?;
        add(into.k_norm, &d_k_norm)?;
        dispatch(RmsNorm { x, weight: &norms.input, eps, out: first_mut(&mut self.normed, rows) });
        self.d_qkv.add_products(&self.normed, 0, rows, &mut into.qkv)?;
        self.d_normed.multiply(&self.d_qkv, 0, rows, &layer.qkv, how)?;
        let mut d_input = vec![0.0; d];
        dispatch(NormBack {
            x,
            weight: &norms.input,
            eps,
            d_out: first(&self.d_normed, rows),
            d_x: first_mut(&mut self.d_x, rows),
            d_weight: &mut d_input,
        });
        add(into.input_norm, &d_input)
    }
}

fn first(matrix: &Matrix, rows: usize) -> &[f32] {
    &matrix.data()[..rows * matrix.columns()]
}

fn first_mut(matrix: &mut Matrix, rows: usize) -> &mut [f32] {
    let columns = matrix.columns();
    &mut matrix.data_mut()[..rows * columns]
}

fn add(mut sum: Tensor, values: &[f32]) -> Result<(), TorchError> {
    let _ = sum.f_add_(&Tensor::f_from_slice(values)?)?;
    Ok(())
}
