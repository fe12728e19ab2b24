//! One pass over the rows of a step.
//!
//! I1. The pass computes the function of [`crate::layer_forward`], row by row, over keys and values in slabs. I2. With
//! [`GemmRows::Blocks`] the result of a row depends on the row, its slab and the weights only, to the last bit.
//!
//! Shapes: letters of [`crate::ModelConfig`], R rows, S rows to sample from.

use super::adapters::AdaptedRows;
use super::audited::{GemmRows, Matrix, dispatch};
use super::kernels::{AddRmsNorm, AttendRow, GatedUnit, LANES, NormRotate, RmsNorm};
use super::kv::Slab;
use super::weights::{LayerWeights, Weights, values};
use crate::ModelConfig;
use crate::error::TorchError;
use crate::model::Rope;

/// Elements of logits that are computed at once; limits the memory for a large vocabulary.
const LOGITS: usize = 1 << 22;

/// A token to compute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Index of the sequence's slab.
    pub(super) slab: usize,
    /// Position in the sequence; the slab has memory for it.
    pub(super) position: usize,
    /// The token.
    pub(super) id: u32,
}

/// Buffers for the rows of a step.
#[derive(Debug)]
pub(super) struct Forward {
    config: ModelConfig,
    gemm_rows: GemmRows,
    /// P x E/2.
    cos: Vec<f32>,
    /// P x E/2.
    sin: Vec<f32>,
    ids: Vec<i64>,
    /// R x D: the residual stream.
    x: Matrix,
    /// R x D.
    normed: Matrix,
    /// R x (H + 2 K) E.
    qkv: Matrix,
    /// R x H E.
    attended: Matrix,
    /// R x D: output of a block, to be added to the residual stream.
    delta: Matrix,
    /// R x 2 F.
    gate_up: Matrix,
    /// R x F.
    unit: Matrix,
    /// S x D.
    hidden: Matrix,
    /// At most [`LOGITS`] elements, or one block of rows.
    logits: Matrix,
    logits_rows: usize,
    scores: Vec<[f32; LANES]>,
}

impl Forward {
    /// Allocates buffers for `rows` rows, `samples` of which are sampled from.
    pub(super) fn new(
        config: &ModelConfig,
        rows: usize,
        samples: usize,
        gemm_rows: GemmRows,
    ) -> Result<Self, TorchError> {
        let (d, f) = (config.hidden_size as usize, config.intermediate_size as usize);
        let (q, kv) = (config.query_size() as usize, config.key_value_size() as usize);
        let vocabulary = config.vocab_size as usize;
        let rope = Rope::new(config, tch::Device::Cpu)?;
        // Both halves of a table are the same.
        let half = |table: &tch::Tensor| values(&table.f_narrow(1, 0, config.head_dim / 2)?);
        let (cos, sin) = rope.tables();
        let logits = Matrix::zeros((LOGITS / vocabulary).clamp(1, samples), vocabulary)?;
        Ok(Self {
            config: config.clone(),
            gemm_rows,
            cos: half(cos)?,
            sin: half(sin)?,
            ids: Vec::with_capacity(rows),
            x: Matrix::zeros(rows, d)?,
            normed: Matrix::zeros(rows, d)?,
            qkv: Matrix::zeros(rows, q + 2 * kv)?,
            attended: Matrix::zeros(rows, q)?,
            delta: Matrix::zeros(rows, d)?,
            gate_up: Matrix::zeros(rows, 2 * f)?,
            unit: Matrix::zeros(rows, f)?,
            hidden: Matrix::zeros(samples, d)?,
            logits_rows: logits.data().len() / vocabulary,
            logits,
            scores: Vec::new(),
        })
    }

    /// Rows of one multiplication in a step of `rows` rows.
    pub(super) fn rows_together(&self, rows: usize) -> usize {
        self.gemm_rows.together(rows)
    }

    /// Computes the rows and stores their keys and values. A row is in at most one of `adapted`.
    pub(super) fn run(
        &mut self,
        weights: &Weights,
        adapted: &[AdaptedRows<'_>],
        rows: &[Row],
        slabs: &mut [&mut Slab],
    ) -> Result<(), TorchError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.ids.clear();
        self.ids.extend(rows.iter().map(|row| i64::from(row.id)));
        self.x.gather(&weights.embedding, &self.ids)?;
        let (count, how) = (rows.len(), self.gemm_rows);
        let d = self.x.columns();
        let eps = self.config.rms_norm_eps as f32;
        for (index, layer) in weights.layers.iter().enumerate() {
            if index == 0 {
                let x = &self.x.data()[..count * d];
                let out = &mut self.normed.data_mut()[..count * d];
                dispatch(RmsNorm { x, weight: &layer.input_norm, eps, out });
            } else {
                self.add_and_norm(count, &layer.input_norm);
            }
            self.qkv.multiply(&self.normed, 0, count, &layer.qkv, how)?;
            for rows in adapted {
                rows.add(rows.layer(index).qkv.as_ref(), &self.normed, &mut self.qkv, how)?;
            }
            self.attend(index, layer, rows, slabs);
            self.delta.multiply(&self.attended, 0, count, &layer.o, how)?;
            for rows in adapted {
                rows.add(rows.layer(index).o.as_ref(), &self.attended, &mut self.delta, how)?;
            }
            self.add_and_norm(count, &layer.post_norm);
            self.gate_up.multiply(&self.normed, 0, count, &layer.gate_up, how)?;
            for rows in adapted {
                rows.add(rows.layer(index).gate_up.as_ref(), &self.normed, &mut self.gate_up, how)?;
            }
            let width = self.unit.columns();
            let gate_up = &self.gate_up.data()[..count * 2 * width];
            dispatch(GatedUnit { gate_up, width, out: &mut self.unit.data_mut()[..count * width] });
            self.delta.multiply(&self.unit, 0, count, &layer.down, how)?;
            for rows in adapted {
                rows.add(rows.layer(index).down.as_ref(), &self.unit, &mut self.delta, how)?;
            }
        }
        Ok(())
    }

    /// Sets sampling row `place` to the last hidden state of row `row` of this step and returns it.
    pub(super) fn pick(&mut self, weights: &Weights, place: usize, row: usize) -> &[f32] {
        let (x, y) = (self.x.row_mut(row), self.delta.row(row));
        let eps = self.config.rms_norm_eps as f32;
        let out = self.hidden.row_mut(place);
        dispatch(AddRmsNorm { x, y, weight: &weights.final_norm, eps, out });
        self.hidden.row(place)
    }

    /// Sets sampling row `place` to a known hidden state.
    pub(super) fn put(&mut self, place: usize, hidden: &[f32]) {
        self.hidden.row_mut(place).copy_from_slice(hidden);
    }

    /// Calls `each` with the logits of every row that was picked, in order.
    pub(super) fn logits(
        &mut self,
        weights: &Weights,
        count: usize,
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(), TorchError> {
        for start in (0..count).step_by(self.logits_rows) {
            let rows = self.logits_rows.min(count - start);
            self.logits.multiply(&self.hidden, start, rows, &weights.head, self.gemm_rows)?;
            for row in 0..rows {
                each(start + row, self.logits.row(row));
            }
        }
        Ok(())
    }

    fn add_and_norm(&mut self, count: usize, weight: &[f32]) {
        let size = count * self.x.columns();
        dispatch(AddRmsNorm {
            x: &mut self.x.data_mut()[..size],
            y: &self.delta.data()[..size],
            weight,
            eps: self.config.rms_norm_eps as f32,
            out: &mut self.normed.data_mut()[..size],
        });
    }

    fn attend(&mut self, index: usize, layer: &LayerWeights, rows: &[Row], slabs: &mut [&mut Slab]) {
        let head_dim = self.config.head_dim as usize;
        let key_heads = self.config.num_key_value_heads as usize;
        let (q, kv) = (self.config.query_size() as usize, self.config.key_value_size() as usize);
        let eps = self.config.rms_norm_eps as f32;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let qkv = self.qkv.data_mut();
        for (row, qkv) in rows.iter().zip(qkv.chunks_exact_mut(q + 2 * kv)) {
            let angles = row.position * head_dim / 2..(row.position + 1) * head_dim / 2;
            let (cos, sin) = (&self.cos[angles.clone()], &self.sin[angles]);
            let (query, rest) = qkv.split_at_mut(q);
            let (key, value) = rest.split_at_mut(kv);
            dispatch(NormRotate { heads: query, weight: &layer.q_norm, eps, cos, sin, factor: scale });
            dispatch(NormRotate { heads: key, weight: &layer.k_norm, eps, cos, sin, factor: 1.0 });
            slabs[row.slab].store(index, row.position, key, value);
        }
        let attended = self.attended.data_mut().chunks_exact_mut(q);
        for ((row, qkv), out) in rows.iter().zip(self.qkv.data().chunks_exact(q + 2 * kv)).zip(attended) {
            dispatch(AttendRow {
                layer: index,
                query: &qkv[..q],
                key_heads,
                head_dim,
                pages: slabs[row.slab].pages(),
                position: row.position,
                scores: &mut self.scores,
                out,
            });
        }
    }
}
