//! Memory use of a training, by part and device, computed from the model's shape before anything is allocated.
//!
//! I1. Each part has one formula, which is only here. I2. The use of a stage is the sum of its parts on a device; that of a
//! training, the maximum over its stages. I3. Parts that a setting limits are counted at the limit; parts that depend on episodes
//! are not counted, but named beside the table.
//!
//! There are two stages: imitation, which always trains the whole model (without a warm start it is still set up, to write
//! the first checkpoint), and reinforcement.
//!
//! Symbols: N parameters, A parameters of an adapter, V vocabulary, D hidden size, F intermediate size, L layers, H query heads,
//! K key heads, E head size, R rows of a batch. Units: bytes. Pure, but for [`ModelShape::of`].

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::devices::DeviceSplit;
use super::distillation::Teacher;
use super::lora::{LoraPlan, LoraTarget};
use super::plan::{Dtype, KeptActivations, PolicySource, Preset, RlPlan, TrainPlan};
use crate::problem::{ConfigError, Problem};

/// Bytes of an fp32 number.
const FP32: u64 = 4;
/// Bytes of a bf16 number.
const BF16: u64 = 2;
/// Maximum parameters of a model that the learner computes directly, with one thread for each piece of a batch.
const MAX_PIECEWISE_PARAMETERS: u64 = 16 << 20;
/// Maximum rows of such a piece.
const PIECE_ROWS: u64 = 1_024;
/// Maximum number of logits in memory, and the number of matrices of this size: log-probabilities, logits, and gradient.
const HELD_LOGITS: u64 = 64 << 20;
const LOGIT_MATRICES: u64 = 3;
/// Numbers of logits that the engine computes at once.
const ENGINE_LOGITS: u64 = 1 << 22;

/// Sizes of a model, as its `config.json` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    /// V.
    pub vocab_size: u64,
    /// D.
    pub hidden_size: u64,
    /// F.
    pub intermediate_size: u64,
    /// L.
    pub num_hidden_layers: u64,
    /// H.
    pub num_attention_heads: u64,
    /// K.
    pub num_key_value_heads: u64,
    /// E.
    pub head_dim: u64,
    /// Maximum tokens of a sequence.
    pub max_position_embeddings: u64,
    /// Whether the output matrix and the embedding are shared.
    pub tie_word_embeddings: bool,
}

/// The part of an adapter's `adapter_config.json` that names its base model.
#[derive(Deserialize)]
struct AdapterConfig {
    base_model_name_or_path: String,
}

impl ModelShape {
    /// Shape of an existing policy, or of the largest policy that a preset makes.
    ///
    /// # Errors
    /// The files of the folder cannot be read.
    pub fn of(policy: &PolicySource) -> Result<Self, ConfigError> {
        match policy {
            PolicySource::Preset(Preset::Tiny) => Ok(Self::tiny()),
            PolicySource::Path(folder) => Self::read(folder).map_err(|why| {
                let message = format!("the policy in `{}` has no readable shape: {why}", folder.display());
                Problem::new(message, "name a folder in the format of Hugging Face").into()
            }),
        }
    }

    /// Shape of the preset, with its largest possible vocabulary.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            vocab_size: 1_500,
            hidden_size: 128,
            intermediate_size: 352,
            num_hidden_layers: 3,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 2_048,
            tie_word_embeddings: true,
        }
    }

    fn read(folder: &Path) -> Result<Self, String> {
        let config = folder.join("config.json");
        if !config.exists() {
            let path = folder.join("adapter_config.json");
            let AdapterConfig { base_model_name_or_path: name } = parsed(&path)?;
            let beside = folder.join(&name);
            let base = if beside.is_dir() { beside } else { name.into() };
            return parsed(&base.join("config.json"));
        }
        parsed(&config)
    }

    fn query(&self) -> u64 {
        self.num_attention_heads * self.head_dim
    }

    fn key_value(&self) -> u64 {
        self.num_key_value_heads * self.head_dim
    }

    /// V D.
    fn embedding(&self) -> u64 {
        self.vocab_size * self.hidden_size
    }

    /// N.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let (d, f, e) = (self.hidden_size, self.intermediate_size, self.head_dim);
        let matrices = d * (self.query() + 2 * self.key_value()) + self.query() * d + 3 * d * f;
        let norms = 2 * d + 2 * e;
        let heads = if self.tie_word_embeddings { 1 } else { 2 };
        heads * self.embedding() + self.num_hidden_layers * (matrices + norms) + d
    }

    /// A.
    #[must_use]
    pub fn adapter_parameters(&self, lora: &LoraPlan) -> u64 {
        let (d, f, q, kv) = (self.hidden_size, self.intermediate_size, self.query(), self.key_value());
        let sides = |target: &LoraTarget| match target {
            LoraTarget::QProj | LoraTarget::OProj => d + q,
            LoraTarget::KProj | LoraTarget::VProj => d + kv,
            LoraTarget::GateProj | LoraTarget::UpProj | LoraTarget::DownProj => d + f,
        };
        let of_layer: u64 = lora.targets.iter().map(sides).sum();
        self.num_hidden_layers * u64::from(lora.rank) * of_layer
    }

    /// Numbers that the keys and values of a token are.
    #[must_use]
    pub fn key_value_numbers(&self) -> u64 {
        2 * self.num_hidden_layers * self.key_value()
    }

    /// Numbers that a row leaves in one layer for the way back: its input and four rows as wide as that, queries, keys and values
    /// before their norms, the four matrices of attention with its output, and the four of the gated unit.
    #[must_use]
    fn row_of_a_layer(&self) -> u64 {
        5 * self.hidden_size
            + (self.query() + 2 * self.key_value())
            + 5 * self.query()
            + 4 * self.intermediate_size
    }

    /// Bytes of the activations that rows keep for the backward pass.
    #[must_use]
    pub fn activation_bytes(&self, rows: u64, dtype: Dtype, kept: KeptActivations) -> u64 {
        let layers = match kept {
            KeptActivations::Keep => self.num_hidden_layers * self.row_of_a_layer(),
            KeptActivations::Recompute => self.num_hidden_layers * self.hidden_size + self.row_of_a_layer(),
        };
        rows * layers * bytes_of(dtype)
    }

    fn logit_bytes(&self, rows: u64) -> u64 {
        let chunk = (HELD_LOGITS / self.vocab_size.max(1)).max(1);
        LOGIT_MATRICES * rows.min(chunk) * self.vocab_size * FP32
    }
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn bytes_of(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::Fp32 => FP32,
        Dtype::Bf16 => BF16,
    }
}

/// A device with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPlace {
    /// The machine's.
    Processor,
    /// A GPU's, by its number.
    Gpu(u32),
}

impl fmt::Display for MemoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor => f.write_str("processor"),
            Self::Gpu(number) => write!(f, "GPU {number}"),
        }
    }
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Name of the part.
    pub part: String,
    /// Device that holds the part.
    pub place: MemoryPlace,
    /// During imitation.
    pub imitation_bytes: u64,
    /// During reinforcement learning.
    pub reinforcement_bytes: u64,
}

/// Inputs of the estimate.
#[derive(Debug, Clone, Copy)]
pub struct MemoryNeeds<'a> {
    /// The training.
    pub plan: &'a TrainPlan,
    /// Shape of the model.
    pub shape: ModelShape,
    /// GPUs of each role.
    pub split: &'a DeviceSplit,
    /// Concurrent attempts.
    pub concurrency: u32,
    /// Cores; imitation may use all of them.
    pub cores: u32,
}

/// Memory use of a training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryBudget {
    /// Parts, grouped by kind.
    pub rows: Vec<MemoryRow>,
    /// Parameters of the model.
    pub parameters: u64,
    /// Parameters of the adapter; 0 without one.
    pub adapter_parameters: u64,
    /// Bytes of the keys and values of one token.
    pub key_value_token_bytes: u64,
    /// Tokens that fit into the engine's cache.
    pub key_value_tokens: u64,
    /// Bytes of the activations of one sequence of the model's maximum length, in a batch of its own.
    pub longest_sequence_bytes: u64,
    /// Tokens of the longest sequence.
    pub longest_sequence_tokens: u64,
    /// Whether the training has reinforcement learning.
    pub reinforces: bool,
}

/// Collects parts.
struct Rows {
    rows: Vec<MemoryRow>,
    /// Device of the learner in imitation and in reinforcement.
    learners: [MemoryPlace; 2],
}

impl Rows {
    fn add(&mut self, part: &str, place: MemoryPlace, imitation_bytes: u64, reinforcement_bytes: u64) {
        if imitation_bytes + reinforcement_bytes > 0 {
            let part = part.to_owned();
            self.rows.push(MemoryRow { part, place, imitation_bytes, reinforcement_bytes });
        }
    }

    /// The same of a learner.
    fn learner(&mut self, part: &str, imitation_bytes: u64, reinforcement_bytes: u64) {
        let [imitation, reinforcement] = self.learners;
        if imitation == reinforcement {
            return self.add(part, imitation, imitation_bytes, reinforcement_bytes);
        }
        self.add(part, imitation, imitation_bytes, 0);
        self.add(part, reinforcement, 0, reinforcement_bytes);
    }
}

impl MemoryNeeds<'_> {
    /// Tokens of a micro-batch of the learner.
    pub const MICRO_BATCH_TOKENS: u64 = 8_192;
    /// Maximum bytes of the engine's keys and values.
    pub const KV_BUDGET: u64 = 1 << 30;
    /// Prompt rows of a step of the engine.
    pub const PREFILL_ROWS: u64 = 256;

    /// Memory use of the training.
    #[must_use]
    pub fn budget(&self) -> MemoryBudget {
        let Self { plan, shape, split, .. } = self;
        let place = |gpus: &std::ops::Range<u32>| {
            if gpus.is_empty() { MemoryPlace::Processor } else { MemoryPlace::Gpu(gpus.start) }
        };
        let learner = place(&split.learner);
        // Without a warm start nothing is computed before: its learner only writes, and stays with the machine.
        let imitation = if plan.warm_start.is_some() { learner } else { MemoryPlace::Processor };
        let mut rows = Rows { rows: Vec::new(), learners: [imitation, learner] };
        self.learner(&mut rows);
        self.engine(&mut rows, place(&split.engine));
        let longest = shape.max_position_embeddings;
        MemoryBudget {
            rows: rows.rows,
            parameters: shape.parameters(),
            adapter_parameters: self.adapter(),
            key_value_token_bytes: shape.key_value_numbers() * FP32,
            key_value_tokens: self.key_value_bytes() / (shape.key_value_numbers() * FP32).max(1),
            longest_sequence_bytes: shape.activation_bytes(
                longest,
                plan.engine.dtype,
                plan.engine.activations,
            ),
            longest_sequence_tokens: longest,
            reinforces: plan.rl.is_some(),
        }
    }

    fn lora(&self) -> Option<&LoraPlan> {
        self.plan.rl.as_ref().and_then(|rl| rl.lora.as_ref())
    }

    fn adapter(&self) -> u64 {
        self.lora().map_or(0, |lora| self.shape.adapter_parameters(lora))
    }

    /// Rows of a micro-batch, and number of concurrent micro-batches.
    fn micro_batches(&self, place: MemoryPlace, is_whole: bool, threads: u32) -> (u64, u64) {
        let in_pieces = is_whole
            && place == MemoryPlace::Processor
            && self.plan.engine.dtype == Dtype::Fp32
            && self.shape.parameters() <= MAX_PIECEWISE_PARAMETERS
            && self.shape.head_dim.is_multiple_of(16);
        if in_pieces { (PIECE_ROWS, u64::from(threads)) } else { (Self::MICRO_BATCH_TOKENS, 1) }
    }

    fn learner(&self, rows: &mut Rows) {
        let [imitation, place] = rows.learners;
        let Self { plan, shape, .. } = self;
        let (n, a) = (shape.parameters(), self.adapter());
        let rl = plan.rl.as_ref();
        let in_rl = |bytes: u64| if rl.is_some() { bytes } else { 0 };
        let engine = &plan.engine;
        let half = engine.dtype == Dtype::Bf16;
        // Trained parameters in reinforcement: the adapter, or the whole model.
        let learned = if a > 0 { a } else { n };
        let imitation_threads = if plan.reproducible { engine.of_learner() } else { self.cores };
        let (piece, pieces) = self.micro_batches(imitation, true, imitation_threads);
        let (rl_piece, rl_pieces) = self.micro_batches(place, a == 0, engine.of_learner());
        if a > 0 {
            rows.learner("the model, which stays as it is", 0, n * bytes_of(engine.dtype));
        }
        rows.learner("parameters, fp32", FP32 * n, in_rl(FP32 * learned));
        if half {
            rows.learner("parameters, bf16", BF16 * n, in_rl(BF16 * learned));
            // Logits are computed in fp32.
            let head = FP32 * shape.embedding();
            rows.learner("output matrix, fp32", head, in_rl(head));
        }
        rows.learner("moments, fp32", 2 * FP32 * n, in_rl(2 * FP32 * learned));
        // Each thread that takes pieces has its own besides.
        let gradients = |learned: u64, rows: u64, pieces: u64| {
            FP32 * learned * if rows == PIECE_ROWS { 1 + pieces } else { 1 }
        };
        let in_reinforcement = in_rl(gradients(learned, rl_piece, rl_pieces));
        rows.learner("gradients, fp32", gradients(n, piece, pieces), in_reinforcement);
        if let Some(rl) = rl {
            self.of_targets(rows, rl, learned);
        }
        let part = match engine.activations {
            KeptActivations::Keep => "activations of a micro-batch",
            KeptActivations::Recompute => "activations of a micro-batch, recomputed",
        };
        let activations = |piece: u64, pieces: u64| {
            pieces * shape.activation_bytes(piece, engine.dtype, engine.activations)
        };
        let imitates = if plan.warm_start.is_some() { activations(piece, pieces) } else { 0 };
        rows.learner(part, imitates, in_rl(activations(rl_piece, rl_pieces)));
        let logits = if plan.warm_start.is_some() { pieces * shape.logit_bytes(piece) } else { 0 };
        rows.learner("logits", logits, in_rl(rl_pieces * shape.logit_bytes(rl_piece)));
        // On its way to the disk, the largest of its files. Read to go on from, all of it, beside what it is copied to; parameters on
        // the processor are not copied. The one that imitation leaves is of the whole model, and read when its learner is gone.
        let averaged = if rl.is_some_and(averages) { FP32 * learned } else { 0 };
        let in_reinforcement = match place {
            MemoryPlace::Processor => 2 * FP32 * learned + averaged,
            MemoryPlace::Gpu(_) => 3 * FP32 * learned + averaged,
        };
        let after_imitation = match imitation {
            MemoryPlace::Gpu(_) if rl.is_some() => 3 * FP32 * n,
            _ => FP32 * n,
        };
        let part = "a checkpoint, written or read";
        rows.add(part, MemoryPlace::Processor, after_imitation, in_rl(in_reinforcement));
    }

    /// Those that are kept beside the policy that learns.
    fn of_targets(&self, rows: &mut Rows, rl: &RlPlan, learned: u64) {
        let teacher = rl.distillation.as_ref().map(|distillation| distillation.teacher);
        let averaged = if averages(rl) { FP32 * learned } else { 0 };
        rows.learner("averaged teacher, fp32", 0, averaged);
        if rl.loss.kl.is_some() || teacher == Some(Teacher::Frozen) {
            let reference = learned * bytes_of(self.plan.engine.dtype);
            rows.learner("the policy of the beginning", 0, reference);
        }
        if rl.gate.is_some() {
            // Parameters, both moments, and what a teacher averages.
            rows.learner("the accepted version, fp32", 0, 3 * FP32 * learned + averaged);
        }
    }

    fn key_value_bytes(&self) -> u64 {
        let running = u64::from(self.concurrency.min(self.plan.engine.max_batch));
        let longest = self.shape.max_position_embeddings * self.shape.key_value_numbers() * FP32;
        running.saturating_mul(longest).min(Self::KV_BUDGET)
    }

    fn engine(&self, rows: &mut Rows, place: MemoryPlace) {
        let shape = &self.shape;
        // Matrices are transposed, so the output matrix is stored in addition to the embedding.
        let tied = if shape.tie_word_embeddings { shape.embedding() } else { 0 };
        let model = FP32 * (shape.parameters() + tied);
        let adapter = FP32 * self.adapter();
        // Only trained parameters are replaced.
        let next = if adapter > 0 { adapter } else { model };
        let next = if self.plan.rl.is_some() { next } else { 0 };
        rows.add("serving copy, fp32", place, 0, model + adapter);
        rows.add("the next serving copy, while it is handed over", place, 0, next);
        rows.add("keys and values", place, 0, self.key_value_bytes());
        let widest =
            3 * shape.hidden_size + 2 * shape.query() + 2 * shape.key_value() + 3 * shape.intermediate_size;
        let step_rows = u64::from(self.plan.engine.max_batch) + Self::PREFILL_ROWS;
        rows.add(
            "rows of a step",
            place,
            0,
            FP32 * (step_rows * widest + ENGINE_LOGITS.max(32 * shape.vocab_size)),
        );
    }
}

/// Whether the teacher is an average of the learned parameters.
fn averages(rl: &RlPlan) -> bool {
    rl.distillation.as_ref().is_some_and(|distillation| distillation.teacher == Teacher::Ema)
}

impl MemoryBudget {
    /// Memory use on a device, by the stage that uses most.
    #[must_use]
    pub fn at(&self, place: MemoryPlace) -> u64 {
        let sum = |bytes: fn(&MemoryRow) -> u64| -> u64 {
            self.rows.iter().filter(|row| row.place == place).map(bytes).sum()
        };
        sum(|row| row.imitation_bytes).max(sum(|row| row.reinforcement_bytes))
    }

    /// Devices in use, in order.
    #[must_use]
    pub fn places(&self) -> Vec<MemoryPlace> {
        let mut places: Vec<MemoryPlace> = self.rows.iter().map(|row| row.place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Bytes for people, in powers of 1,000: `8.04 GB`.
fn shown(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0 => "-".to_owned(),
        1..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["imitation", if self.reinforces { "reinforcement" } else { "evaluation" }];
        let width = self.rows.iter().map(|row| row.part.len()).max().unwrap_or(0).max("memory".len());
        writeln!(f, "{:width$}  {:9}  {:>13}  {:>13}", "memory", "where", columns[0], columns[1])?;
        let mut line = |part: &str, place: MemoryPlace, imitation: u64, reinforcement: u64| {
            let (place, imitation, reinforcement) =
                (place.to_string(), shown(imitation), shown(reinforcement));
            writeln!(f, "{part:width$}  {place:9}  {imitation:>13}  {reinforcement:>13}")
        };
        for row in &self.rows {
            line(&row.part, row.place, row.imitation_bytes, row.reinforcement_bytes)?;
        }
        for place in self.places() {
            let at = || self.rows.iter().filter(|row| row.place == place);
            let (imitation, reinforcement) =
                (at().map(|row| row.imitation_bytes).sum(), at().map(|row| row.reinforcement_bytes).sum());
            line("together", place, imitation, reinforcement)?;
        }
        writeln!(f)?;
        write!(f, "{} parameters", self.parameters)?;
        if self.adapter_parameters > 0 {
            write!(f, ", {} of the adapter", self.adapter_parameters)?;
        }
        writeln!(
            f,
            "; keys and values take {} a token, room for {} tokens",
            shown(self.key_value_token_bytes),
            self.key_value_tokens
        )?;
        writeln!(
            f,
            "an episode longer than a micro-batch goes alone: one of {} tokens, the most that the model takes, would keep {}",
            self.longest_sequence_tokens,
            shown(self.longest_sequence_bytes)
        )
    }
}

/// Changes a training; false if there is nothing to change.
type Change<'a> = &'a dyn Fn(&mut TrainPlan) -> bool;

/// Settings that reduce memory use, with the resulting use.
impl MemoryNeeds<'_> {
    /// Changes of the train file that reduce the use of a device, in words, with the resulting use, in ascending order of use.
    #[must_use]
    pub fn savings(&self, place: MemoryPlace) -> Vec<(&'static str, u64)> {
        let now = self.budget().at(place);
        let with = |change: Change<'_>| {
            let mut plan = self.plan.clone();
            let changed = change(&mut plan);
            changed
                .then(|| MemoryNeeds { plan: &plan, ..*self }.budget().at(place))
                .filter(|&then| then < now)
        };
        let recompute = |plan: &mut TrainPlan| {
            plan.engine.activations = KeptActivations::Recompute;
            true
        };
        let half = |plan: &mut TrainPlan| {
            plan.engine.dtype = Dtype::Bf16;
            true
        };
        let adapter = |plan: &mut TrainPlan| {
            let Some(rl) = plan.rl.as_mut() else { return false };
            rl.lora = Some(LoraPlan { rank: 16, alpha: 32.0, targets: LoraTarget::ALL.to_vec() });
            true
        };
        let ungated = |plan: &mut TrainPlan| plan.rl.as_mut().is_some_and(|rl| rl.gate.take().is_some());
        let narrow = |plan: &mut TrainPlan| {
            plan.engine.max_batch = plan.engine.max_batch.min(32);
            true
        };
        let changes: [(&'static str, Change<'_>); 5] = [
            ("`engine: { activations: recompute }`", &recompute),
            ("`engine: { dtype: bf16 }`", &half),
            ("`rl: { lora: {} }`", &adapter),
            ("no `gate`", &ungated),
            ("`engine: { max_batch: 32 }`", &narrow),
        ];
        let mut savings: Vec<(&'static str, u64)> = changes
            .into_iter()
            .filter(|(words, _)| !(words.contains("lora") && self.lora().is_some()))
            .filter_map(|(words, change)| Some((words, with(change)?)))
            .collect();
        savings.sort_by_key(|&(_, bytes)| bytes);
        savings
    }

    /// Reason for which the training does not fit into this memory of a device, and settings that would fit; `None` if it fits.
    #[must_use]
    pub fn shortage(&self, place: MemoryPlace, available: u64) -> Option<Problem> {
        let budget = self.budget();
        let needed = budget.at(place);
        if needed <= available {
            return None;
        }
        let savings: Vec<String> = self
            .savings(place)
            .into_iter()
            .map(|(words, bytes)| format!("{words} would take {}", shown(bytes)))
            .collect();
        let help = match savings.as_slice() {
            [] => "take a smaller model, or a machine with more memory".to_owned(),
            savings => {
                format!("{}; or take a smaller model, or a machine with more memory", savings.join(", "))
            }
        };
        let message = format!(
            "the training takes {} of the {place}'s memory, and {} are available\n\n{budget}",
            shown(needed),
            shown(available)
        );
        Some(Problem::new(message, help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shape of Qwen3-4B.
    fn four_billion() -> ModelShape {
        ModelShape {
            vocab_size: 151_936,
            hidden_size: 2_560,
            intermediate_size: 9_728,
            num_hidden_layers: 36,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            head_dim: 128,
            max_position_embeddings: 40_960,
            tie_word_embeddings: true,
        }
    }

    fn plan(inside: &str) -> TrainPlan {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("suite.yaml"), "").unwrap();
        let file = folder.path().join("train.yaml");
        let text = format!(
            "format: 1\ntrain: t\npolicy: {{ preset: tiny }}\nsuites: [{{ path: suite.yaml }}]\n{inside}\n"
        );
        std::fs::write(&file, text).unwrap();
        super::super::load_train(&file).unwrap()
    }

    fn budget(inside: &str, shape: ModelShape, split: &DeviceSplit) -> MemoryBudget {
        let plan = plan(inside);
        MemoryNeeds { plan: &plan, shape, split, concurrency: 64, cores: 2 }.budget()
    }

    #[track_caller]
    fn of(budget: &MemoryBudget, part: &str) -> f64 {
        let rows: Vec<&MemoryRow> = budget.rows.iter().filter(|row| row.part.starts_with(part)).collect();
        assert!(!rows.is_empty(), "no {part}: {budget}");
        // One for each place.
        rows.iter().map(|row| row.reinforcement_bytes).sum::<u64>() as f64 / 1e9
    }

    #[track_caller]
    fn about(got: f64, expected: f64) {
        assert!((got - expected).abs() < 0.03 * expected, "{got}, not about {expected}");
    }

    /// The figures of the design, in GB: of all that is learned, 8 in bf16, 48 of fp32 master and moments, 16 of gradients, 16 of
    /// a teacher that is averaged, 147 KB a token of keys and values at 2 bytes; the engine has 4 bytes of each.
    #[test]
    fn a_model_of_four_billion_parameters_takes_what_the_design_says() {
        let gpu = DeviceSplit { learner: 0..1, engine: 1..1, judge: 0..0 };
        let engine = "engine: { device: cuda, dtype: bf16, activations: recompute }";
        let taught = "rl: { objective: opd, distillation: { hints: [sibling] } }";
        let full = budget(&format!("{taught}\n{engine}"), four_billion(), &gpu);
        assert_eq!(full.parameters, 4_022_468_096);
        about(of(&full, "parameters, bf16"), 8.0);
        about(of(&full, "parameters, fp32") + of(&full, "moments, fp32"), 48.0);
        about(of(&full, "gradients"), 16.0);
        about(of(&full, "averaged teacher"), 16.0);
        assert_eq!(four_billion().key_value_numbers() * BF16, 147_456);
        assert_eq!(full.key_value_token_bytes, 2 * 147_456);
        // Twice the bytes of bf16, and the output matrix.
        about(of(&full, "serving copy"), 2.0 * 8.04 + 1.56);
        let parts = 8.04 + 48.27 + 16.09 + 16.09;
        let at_gpu = full.at(MemoryPlace::Gpu(0)) as f64 / 1e9;
        assert!(at_gpu > parts && at_gpu < 141.0, "one H200: {at_gpu}");
        assert!(at_gpu > 80.0, "no card of 80 GB");
    }

    /// 8 of the model, 0.6 of the adapter, about 10 of activations at 32 k with recompute.
    #[test]
    fn an_adapter_takes_little_beside_its_model() {
        let gpu = DeviceSplit { learner: 0..1, engine: 1..1, judge: 0..0 };
        let engine = "engine: { device: cuda, dtype: bf16, activations: recompute }";
        let budget = budget(&format!("rl: {{ lora: {{}} }}\n{engine}"), four_billion(), &gpu);
        assert_eq!(budget.adapter_parameters, 33_030_144);
        about(of(&budget, "the model, which stays"), 8.0);
        let adapter = ["parameters, fp32", "parameters, bf16", "moments", "gradients"];
        about(adapter.iter().map(|part| of(&budget, part)).sum(), 0.6);
        let at_32k = four_billion().activation_bytes(32_768, Dtype::Bf16, KeptActivations::Recompute);
        assert!((9e9..12e9).contains(&(at_32k as f64)), "{at_32k}");
        let reinforcement: u64 = budget
            .rows
            .iter()
            .filter(|row| row.place == MemoryPlace::Gpu(0))
            .map(|row| row.reinforcement_bytes)
            .sum();
        assert!(reinforcement < 24_000_000_000, "a card of 24 GB: {budget}");
    }

    #[test]
    fn what_is_kept_and_what_is_recomputed() {
        let shape = four_billion();
        let keep = shape.activation_bytes(8_192, Dtype::Fp32, KeptActivations::Keep);
        assert_eq!(keep, 2 * shape.activation_bytes(8_192, Dtype::Bf16, KeptActivations::Keep));
        assert!(keep > 15 * shape.activation_bytes(8_192, Dtype::Fp32, KeptActivations::Recompute));
    }

    #[test]
    fn a_machine_without_room_is_told_what_would_help() {
        let plan = plan("rl: { gate: {} }\nwarm_start: {}");
        let (shape, split) = (four_billion(), DeviceSplit::default());
        let needs = MemoryNeeds { plan: &plan, shape, split: &split, concurrency: 64, cores: 2 };
        let needed = needs.budget().at(MemoryPlace::Processor);
        assert!(needs.shortage(MemoryPlace::Processor, needed).is_none());
        let shortage = needs.shortage(MemoryPlace::Processor, needed - 1).unwrap();
        assert!(shortage.message().contains("moments, fp32"), "{}", shortage.message());
        for words in ["activations: recompute", "no `gate`"] {
            assert!(shortage.help_text().contains(words), "{}", shortage.help_text());
        }
        let savings = needs.savings(MemoryPlace::Processor);
        assert!(
            savings.iter().all(|&(_, bytes)| bytes < needed) && savings.is_sorted_by_key(|&(_, bytes)| bytes)
        );
    }

    /// An unused part does not have a row, and each stage counts its own parts.
    #[test]
    fn a_tiny_training_takes_megabytes() {
        let budget = budget("rl: {}", ModelShape::tiny(), &DeviceSplit::default());
        assert_eq!(budget.places(), [MemoryPlace::Processor]);
        let megabytes = budget.at(MemoryPlace::Processor) as f64 / 1e6;
        assert!((100.0..2_000.0).contains(&megabytes), "{budget}");
        assert!(!budget.rows.iter().any(|row| row.part.contains("bf16") || row.part.contains("teacher")));
    }
}
