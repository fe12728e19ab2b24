//! Attention between the rows of a piece, forward and backward.
//!
//! Queries are processed in blocks, and a block reads no key after its last row. The backward pass recomputes the weights
//! from the scores and their log-sum-exp, so no matrix of rows x rows is kept.
//!
//! I1. A row attends to its span's prefix rows, then to its span's own rows up to itself, and to no others.
//!
//! Shapes: H query heads, K key heads, E head size, L keys of a span. Rows are of (H + 2 K) E: queries scaled by
//! 1 / sqrt(E), keys, values.
//! Source: FlashAttention-2 (arXiv 2307.08691), section 3.1, for the derivative. Deviations: blocks of queries only.

use std::ops::Range;

use super::piece::Span;
use super::products::{Line, ROWS, columns_by_panel, panels, rows_by_panel, transposed_panels};
use crate::engine::audited::{Arithmetic, Kernel};
use crate::engine::kernels::{LANES, dot, exp, largest, total};

/// Queries in a block: with a thousand keys their scores fit into the L1 cache.
const BLOCK: usize = 32;

/// Number and size of heads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// H.
    pub(super) queries: usize,
    /// K.
    pub(super) keys: usize,
    /// E, a multiple of [`LANES`].
    pub(super) size: usize,
}

impl Heads {
    /// Columns of a row.
    pub(super) fn width(self) -> usize {
        (self.queries + 2 * self.keys) * self.size
    }

    fn query(self, head: usize) -> Range<usize> {
        head * self.size..(head + 1) * self.size
    }

    fn key(self, head: usize) -> Range<usize> {
        self.query(self.queries + head)
    }

    fn value(self, head: usize) -> Range<usize> {
        self.query(self.queries + self.keys + head)
    }

    fn queries_of(self, key_head: usize) -> Range<usize> {
        let group = self.queries / self.keys;
        key_head * group..(key_head + 1) * group
    }
}

/// Buffers that are reused for every head of every span.
#[derive(Debug, Default)]
pub(super) struct Room {
    keys_t: Vec<Line>,
    keys: Vec<Line>,
    values_t: Vec<Line>,
    values: Vec<Line>,
    queries: Vec<f32>,
    query_panels: Vec<Line>,
    grads: Vec<f32>,
    grad_panels: Vec<Line>,
    scores: Vec<f32>,
    d_scores: Vec<f32>,
    d_keys: Vec<f32>,
    d_values: Vec<f32>,
}

/// Attention of all spans.
pub(super) struct Attend<'a> {
    pub(super) heads: Heads,
    pub(super) spans: &'a [Span],
    /// R x (H + 2 K) E.
    pub(super) qkv: &'a [f32],
    /// R x H E.
    pub(super) out: &'a mut [f32],
    /// R x H: logarithms of the sums of exponentials of scores.
    pub(super) log_sums: &'a mut [f32],
    pub(super) room: &'a mut Room,
}

impl Kernel for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Self { heads, spans, qkv, out, log_sums, room } = self;
        let (size, width) = (heads.size, heads.width());
        for span in spans {
            for key_head in 0..heads.keys {
                let (key, value) = (heads.key(key_head), heads.value(key_head));
                transposed_panels(span.keys(qkv, width, key), size, &mut room.keys_t);
                panels(span.keys(qkv, width, value), size, &mut room.values);
                let keys = span.len();
                let stride = keys.next_multiple_of(LANES);
                for head in heads.queries_of(key_head) {
                    for block in blocks(span) {
                        gather(qkv, width, &block, heads.query(head), &mut room.queries);
                        let seen = span.seen(block.end);
                        room.scores.resize(BLOCK * stride, 0.0);
                        products::<A>(&room.queries, size, &room.keys_t, seen, stride, &mut room.scores);
                        let scores = &mut room.scores[..room.queries.len() / size * stride];
                        let mut sums = [1.0; BLOCK];
                        let rows = scores.chunks_exact_mut(stride).zip(&mut sums);
                        for (row, (scores, sum)) in block.clone().zip(rows) {
                            let highest = to_weights::<A>(&mut scores[..seen], span.seen(row + 1), sum);
                            log_sums[row * heads.queries + head] = highest + sum.ln();
                        }
                        weighted::<A>(scores, stride, seen, &room.values, keys, size, |at, from, line| {
                            if let Some(row) = block.clone().nth(at) {
                                let place = row * heads.queries * size + head * size + from;
                                for (out, value) in out[place..place + LANES].iter_mut().zip(line) {
                                    *out = value / sums[at];
                                }
                            }
                        });
                    }
                }
            }
        }
    }
}

/// The derivative.
pub(super) struct AttendBack<'a> {
    pub(super) heads: Heads,
    pub(super) spans: &'a [Span],
    /// R x (H + 2 K) E: the input of the forward pass.
    pub(super) qkv: &'a [f32],
    /// R x H E: the output of the forward pass.
    pub(super) out: &'a [f32],
    /// R x H: log-sum-exp of the forward pass.
    pub(super) log_sums: &'a [f32],
    /// R x H E: derivative of the loss with respect to the output.
    pub(super) d_out: &'a [f32],
    /// R x (H + 2 K) E, output: derivative of the loss with respect to the input.
    pub(super) d_qkv: &'a mut [f32],
    pub(super) room: &'a mut Room,
}

impl Kernel for AttendBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Self { heads, spans, qkv, out, log_sums, d_out, d_qkv, room } = self;
        let (size, width, out_width) = (heads.size, heads.width(), heads.queries * heads.size);
        d_qkv.fill(0.0);
        for span in spans {
            for key_head in 0..heads.keys {
                let (key, value) = (heads.key(key_head), heads.value(key_head));
                transposed_panels(span.keys(qkv, width, key.clone()), size, &mut room.keys_t);
                panels(span.keys(qkv, width, key.clone()), size, &mut room.keys);
                transposed_panels(span.keys(qkv, width, value.clone()), size, &mut room.values_t);
                let keys = span.len();
                let stride = keys.next_multiple_of(LANES);
                for sums in [&mut room.d_keys, &mut room.d_values] {
                    sums.clear();
                    sums.resize(stride * size, 0.0);
                }
                for head in heads.queries_of(key_head) {
                    for block in blocks(span) {
                        let seen = span.seen(block.end);
                        gather(qkv, width, &block, heads.query(head), &mut room.queries);
                        gather(d_out, out_width, &block, heads.query(head), &mut room.grads);
                        panels(room.queries.chunks_exact(size), size, &mut room.query_panels);
                        panels(room.grads.chunks_exact(size), size, &mut room.grad_panels);
                        room.scores.resize(BLOCK * stride, 0.0);
                        room.d_scores.resize(BLOCK * stride, 0.0);
                        products::<A>(&room.queries, size, &room.keys_t, seen, stride, &mut room.scores);
                        products::<A>(&room.grads, size, &room.values_t, seen, stride, &mut room.d_scores);
                        let used = room.queries.len() / size * stride;
                        let (scores, d_scores) = (&mut room.scores[..used], &mut room.d_scores[..used]);
                        let rows = scores.chunks_exact_mut(stride).zip(d_scores.chunks_exact_mut(stride));
                        for (at, (scores, d_scores)) in rows.enumerate() {
                            let Some(row) = block.clone().nth(at) else {
                                scores.fill(0.0);
                                d_scores.fill(0.0);
                                continue;
                            };
                            let place = row * out_width + head * size;
                            let grads = &room.grads[at * size..(at + 1) * size];
                            let mean = dot::<A>(grads, &out[place..place + size]);
                            let log_sum = log_sums[row * heads.queries + head];
                            let visible = span.seen(row + 1);
                            back_to_scores::<A>(scores, d_scores, visible, log_sum, mean);
                        }
                        weighted::<A>(d_scores, stride, seen, &room.keys, keys, size, |at, from, line| {
                            if let Some(row) = block.clone().nth(at) {
                                let place = row * width + head * size + from;
                                d_qkv[place..place + LANES].copy_from_slice(line);
                            }
                        });
                        add_columns::<A>(d_scores, stride, seen, &room.query_panels, &mut room.d_keys, size);
                        add_columns::<A>(scores, stride, seen, &room.grad_panels, &mut room.d_values, size);
                    }
                }
                for (columns, sums) in [(key, &room.d_keys), (value, &room.d_values)] {
                    for (row, sums) in span.rows().zip(sums.chunks_exact(size)) {
                        let place = row * width + columns.start;
                        for (to, &sum) in d_qkv[place..place + size].iter_mut().zip(sums) {
                            *to += sum;
                        }
                    }
                }
            }
        }
    }
}

/// The span's own rows, a block at a time.
#[inline(always)]
fn blocks(span: &Span) -> impl Iterator<Item = Range<usize>> {
    let own = span.own.clone();
    own.clone().step_by(BLOCK).map(move |start| start..(start + BLOCK).min(own.end))
}

/// Copies some columns of some rows, and adds rows of 0 up to a whole tile.
#[inline(always)]
fn gather(matrix: &[f32], width: usize, rows: &Range<usize>, columns: Range<usize>, to: &mut Vec<f32>) {
    to.clear();
    for row in matrix[rows.start * width..rows.end * width].chunks_exact(width) {
        to.extend_from_slice(&row[columns.clone()]);
    }
    to.resize(rows.len().next_multiple_of(ROWS) * columns.len(), 0.0);
}

/// `out = left x right` for the first `seen` columns, rounded up to whole panels. `out` has `stride` columns.
#[inline(always)]
fn products<A: Arithmetic>(
    left: &[f32],
    inner: usize,
    right: &[Line],
    seen: usize,
    stride: usize,
    out: &mut [f32],
) {
    for (left, out) in left.chunks_exact(ROWS * inner).zip(out.chunks_exact_mut(ROWS * stride)) {
        let rows = four(left, inner, inner);
        for (index, panel) in right.chunks_exact(inner).take(seen.div_ceil(LANES)).enumerate() {
            let tile = rows_by_panel::<A>(rows, panel);
            for (line, out) in tile.iter().zip(out.chunks_exact_mut(stride)) {
                out[index * LANES..(index + 1) * LANES].copy_from_slice(line);
            }
        }
    }
}

/// Computes `weights x values` over the first `seen` weights of each row and calls `each` with row, first column and line.
#[inline(always)]
fn weighted<A: Arithmetic>(
    weights: &[f32],
    stride: usize,
    seen: usize,
    values: &[Line],
    keys: usize,
    size: usize,
    mut each: impl FnMut(usize, usize, &Line),
) {
    for (group, weights) in weights.chunks_exact(ROWS * stride).enumerate() {
        let rows = four(weights, stride, seen);
        for (index, panel) in values.chunks_exact(keys).take(size / LANES).enumerate() {
            let tile = rows_by_panel::<A>(rows, panel);
            for (at, line) in tile.iter().enumerate() {
                each(group * ROWS + at, index * LANES, line);
            }
        }
    }
}

/// Adds the transpose of the first `seen` columns of `matrix` times `panels` to `sums`, rows of `size`.
#[inline(always)]
fn add_columns<A: Arithmetic>(
    matrix: &[f32],
    stride: usize,
    seen: usize,
    panels: &[Line],
    sums: &mut [f32],
    size: usize,
) {
    let inner = matrix.len() / stride;
    for (group, sums) in sums.chunks_exact_mut(ROWS * size).take(seen.div_ceil(ROWS)).enumerate() {
        for (index, panel) in panels.chunks_exact(inner).enumerate() {
            let tile = columns_by_panel::<A>(matrix, stride, group * ROWS, panel);
            for (line, sums) in tile.iter().zip(sums.chunks_exact_mut(size)) {
                for (sum, value) in sums[index * LANES..(index + 1) * LANES].iter_mut().zip(line) {
                    *sum += value;
                }
            }
        }
    }
}

#[inline(always)]
fn four(matrix: &[f32], stride: usize, length: usize) -> [&[f32]; ROWS] {
    std::array::from_fn(|row| &matrix[row * stride..row * stride + length])
}

/// Replaces the first `visible` scores by exp(score - max) and the others by 0; returns max and sets `sum`.
#[inline(always)]
fn to_weights<A: Arithmetic>(scores: &mut [f32], visible: usize, sum: &mut f32) -> f32 {
    let (scores, hidden) = scores.split_at_mut(visible);
    hidden.fill(0.0);
    let highest = largest(scores);
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (score, sum) in chunk.iter_mut().zip(&mut sums) {
            *score = exp::<A>(*score - highest);
            *sum += *score;
        }
    }
    *sum = total(&sums);
    for score in rest {
        *score = exp::<A>(*score - highest);
        *sum += *score;
    }
    highest
}

/// Replaces scores by weights, and in `d_scores` the derivative with respect to the weights by that with respect to the
/// scores. Invisible entries become 0. `mean` is the sum of weights times derivatives.
#[inline(always)]
fn back_to_scores<A: Arithmetic>(
    scores: &mut [f32],
    d_scores: &mut [f32],
    visible: usize,
    log_sum: f32,
    mean: f32,
) {
    let (scores, hidden) = scores.split_at_mut(visible);
    hidden.fill(0.0);
    let (d_scores, hidden) = d_scores.split_at_mut(visible);
    hidden.fill(0.0);
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    let (d_chunks, d_rest) = d_scores.as_chunks_mut::<LANES>();
    for (chunk, d_chunk) in chunks.iter_mut().zip(d_chunks) {
        for (score, d_score) in chunk.iter_mut().zip(d_chunk) {
            *score = exp::<A>(*score - log_sum);
            *d_score = *score * (*d_score - mean);
        }
    }
    for (score, d_score) in rest.iter_mut().zip(d_rest) {
        *score = exp::<A>(*score - log_sum);
        *d_score = *score * (*d_score - mean);
    }
}
