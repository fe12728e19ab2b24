//! The rows of several segments as one matrix, and attention between the rows of each.
//!
//! Segments are sorted by length into buckets; the attention of a bucket is one batched call. Within a bucket shorter
//! segments are padded at the end, which a causal mask hides from every real row: results are those of each segment
//! alone.
//!
//! In bf16 on a GPU all segments are one call that knows where each begins, and nothing is padded or repeated.
//!
//! I1. Row `r` attends to the rows of its own segment up to itself, and to nothing else. I2. The order of rows is the
//! order of the segments given.
//!
//! Shapes: R rows, B segments of a bucket, T its longest, H heads, K key heads, E head size.

use clawrl_torch_shim::flash_attention;
use tch::{Device, Kind, Tensor};

use super::config::ModelConfig;
use super::layers::Rope;
use crate::error::TorchError;

/// Lengths within one bucket differ by less than this, so padding stays small where calls would dominate.
const BUCKET: usize = 16;
/// The same on a GPU, where a call costs more than its computation.
const GPU_BUCKET: usize = 128;
/// Head sizes that libtorch's flash attention supports, if they are multiples of 8.
const FLASH_HEADS: std::ops::RangeInclusive<i64> = 8..=256;

/// How rows of packed segments attend.
#[derive(Debug)]
pub struct PackedRows {
    ids: Tensor,
    cos: Tensor,
    sin: Tensor,
    heads_per_key: i64,
    buckets: Vec<Bucket>,
    /// Where segments are one call.
    spans: Option<Spans>,
    /// For each row, its place in the concatenated outputs of the buckets; `None` when that is the identity.
    gather: Option<Tensor>,
}

/// Segments for [`flash_attention`].
#[derive(Debug)]
struct Spans {
    /// First row of each, and R (B + 1), i32.
    starts: Tensor,
    longest: i64,
}

#[derive(Debug)]
struct Bucket {
    segments: i64,
    longest: i64,
    /// For each of B x T places the row that is there; padding repeats the segment's first row. `None` when the rows
    /// are the bucket as they lie.
    rows: Option<Tensor>,
}

impl PackedRows {
    /// Packs the tokens of segments, in this order. No segment is empty or longer than the model allows.
    ///
    /// # Errors
    /// [`TorchError::Model`] when a segment is too long or empty; [`TorchError`] from libtorch.
    pub fn new(
        config: &ModelConfig,
        rope: &Rope,
        segments: &[&[u32]],
        device: Device,
    ) -> Result<Self, TorchError> {
        let longest = config.max_position_embeddings;
        let mut starts = Vec::with_capacity(segments.len());
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        for segment in segments {
            if segment.is_empty() || segment.len() as i64 > longest {
                let length = segment.len();
                return Err(TorchError::Model(format!(
                    "a segment of {length} tokens; 1 to {longest} are possible"
                )));
            }
            starts.push(ids.len() as i64);
            ids.extend(segment.iter().map(|&id| i64::from(id)));
            positions.extend(0..segment.len() as i64);
        }
        let spans = if device.is_cuda() && FLASH_HEADS.contains(&config.head_dim) && config.head_dim % 8 == 0
        {
            let ends = starts.iter().copied().chain([ids.len() as i64]);
            let starts: Vec<i32> = ends.map(|row| row as i32).collect();
            let longest = segments.iter().map(|segment| segment.len()).max().unwrap_or(0) as i64;
            Some(Spans { starts: Tensor::f_from_slice(&starts)?.f_to_device(device)?, longest })
        } else {
            None
        };
        let width = if device.is_cuda() { GPU_BUCKET } else { BUCKET };
        let bucket_of = |index: usize| segments[index].len().div_ceil(width);
        let mut order: Vec<usize> = (0..segments.len()).collect();
        order.sort_by_key(|&index| (bucket_of(index), index));
        let mut buckets = Vec::new();
        let mut gather = vec![0i64; ids.len()];
        let mut placed = 0i64;
        for group in order.chunk_by(|&a, &b| bucket_of(a) == bucket_of(b)) {
            let longest = group.iter().map(|&index| segments[index].len()).max().unwrap_or(0) as i64;
            let mut rows = Vec::with_capacity(group.len() * longest as usize);
            for &index in group {
                let (start, length) = (starts[index], segments[index].len() as i64);
                for at in 0..longest {
                    rows.push(start + if at < length { at } else { 0 });
                    if at < length {
                        gather[(start + at) as usize] = placed + at;
                    }
                }
                placed += longest;
            }
            let first = rows.first().copied().unwrap_or(0);
            let as_they_lie = rows.iter().zip(first..).all(|(&row, expected)| row == expected);
            let rows = if as_they_lie && first == 0 && rows.len() == ids.len() {
                None
            } else {
                Some(Tensor::f_from_slice(&rows)?.f_to_device(device)?)
            };
            buckets.push(Bucket { segments: group.len() as i64, longest, rows });
        }
        let identity = gather.iter().zip(0..).all(|(&place, row)| place == row) && placed == ids.len() as i64;
        let gather = if identity { None } else { Some(Tensor::f_from_slice(&gather)?.f_to_device(device)?) };
        let positions = Tensor::f_from_slice(&positions)?.f_to_device(device)?;
        let (cos, sin) = rope.rows(&positions)?;
        Ok(Self {
            ids: Tensor::f_from_slice(&ids)?.f_to_device(device)?.f_to_kind(Kind::Int64)?,
            cos,
            sin,
            heads_per_key: config.num_attention_heads / config.num_key_value_heads,
            buckets,
            spans,
            gather,
        })
    }

    /// Token ids (R), i64.
    pub fn ids(&self) -> &Tensor {
        &self.ids
    }

    /// Cosines and sines of the rows, (R x 1 x E) each.
    pub fn rope(&self) -> (&Tensor, &Tensor) {
        (&self.cos, &self.sin)
    }

    /// Causal attention within each segment: query (R x H x E), key and value (R x K x E) to (R x H E).
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn attend(&self, q_rhe: &Tensor, k_rke: &Tensor, v_rke: &Tensor) -> Result<Tensor, TorchError> {
        if let Some(Spans { starts, longest }) =
            self.spans.as_ref().filter(|_| q_rhe.kind() == Kind::BFloat16)
        {
            let out_rhe = flash_attention(q_rhe, k_rke, v_rke, starts, *longest)?;
            return Ok(out_rhe.f_reshape([q_rhe.size()[0], -1])?);
        }
        let mut outputs = Vec::with_capacity(self.buckets.len());
        for bucket in &self.buckets {
            let batched = |x: &Tensor| -> Result<Tensor, TorchError> {
                let x = match &bucket.rows {
                    Some(rows) => x.f_index_select(0, rows)?,
                    None => x.shallow_clone(),
                };
                let size = x.size();
                Ok(x.f_view([bucket.segments, bucket.longest, size[1], size[2]])?.f_transpose(1, 2)?)
            };
            // Repeated here and not inside the call: the kernels for grouped queries on a CPU are slow.
            let repeated = |x: &Tensor| -> Result<Tensor, TorchError> {
                let x = batched(x)?;
                if self.heads_per_key == 1 {
                    return Ok(x);
                }
                Ok(x.f_repeat_interleave_self_int(self.heads_per_key, 1, None)?)
            };
            let (q, k, v) = (batched(q_rhe)?, repeated(k_rke)?, repeated(v_rke)?);
            let out =
                Tensor::f_scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, true, None, false)?;
            outputs.push(out.f_transpose(1, 2)?.f_reshape([bucket.segments * bucket.longest, -1])?);
        }
        let placed = if outputs.len() == 1 { outputs.swap_remove(0) } else { Tensor::f_cat(&outputs, 0)? };
        match &self.gather {
            Some(gather) => Ok(placed.f_index_select(0, gather)?),
            None => Ok(placed),
        }
    }
}
