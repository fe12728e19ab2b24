//! A whole optimizer step of a model with the shape of Qwen3-4B and random weights on one GPU, in bf16 over fp32 parameters: for an
//! adapter, and for the whole model.
//!
//! The peer is transformers with `peft` for the adapter, PyTorch's autocast to bf16, checkpointing of every layer and fused AdamW.
//! Weights, adapter, samples, micro-batches and settings are the same. A GPU has room for one side at a time, so the sides alternate:
//! each loads, takes a warm-up step and its rounds, and frees its memory.
//!
//! Memory is the peak of tensors in libtorch's allocator, including loading. It is compared with the budget that `clawrl plan` prints
//! for such a training. Drivers and libraries take some hundred MiB more.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clawrl_config::{DeviceSplit, MemoryBudget, MemoryNeeds, MemoryPlace, ModelShape, load_train};
use clawrl_learn::{Learner as _, PolicyLoss, Weighting};
use clawrl_torch::{
    Activations, AdapterFiles, Alone, Base, Checkpoints, Device, Dtype, LearnerConfig, LearnerSetup,
    LoraConfig, LoraTarget, ModelConfig, ModelFiles, ParamLayout, Params, Retention, TorchLearner,
    Unpublished, configure_threads, gpu_memory, init_adapter, load_adapter, load_params, random_params,
    release_gpu_memory, reset_gpu_peak, save_adapter, save_params,
};
use serde::{Deserialize, Serialize};

use super::{Asked, LEARNING_RATE, Side, Work, learner_config, train_batch};
use crate::Failure;
use crate::python::Peer;

const SCRIPT: &str = include_str!("../../peers/transformers_step.py");
/// GPU index for libtorch's allocator.
const GPU: i8 = 0;
const MIB: f64 = (1u64 << 20) as f64;

/// Folders of the model, its adapter and checkpoints.
struct Folders {
    model: PathBuf,
    adapter: PathBuf,
    checkpoints: PathBuf,
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    folder: &'a Path,
    adapter: Option<&'a Path>,
    samples: &'a [Asked],
    micro_batch: u64,
    rounds: u32,
    learning_rate: f64,
}

/// Result of one side's rounds.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Steps {
    /// Of each step but the warm-up.
    pub(super) wall_s: Vec<f64>,
    /// Of each step, including the warm-up.
    pub(super) grad_norms: Vec<f64>,
    pub(super) peak_mib: f64,
}

/// Results of one workload.
pub(super) struct Outcome {
    pub(super) ours: Vec<Steps>,
    pub(super) theirs: Vec<Steps>,
    pub(super) budget: MemoryBudget,
}

impl Outcome {
    /// Planned memory on the GPU.
    pub(super) fn budget_mib(&self) -> f64 {
        self.budget.at(MemoryPlace::Gpu(0)) as f64 / MIB
    }

    /// Relative difference of the sides' first gradient norms.
    pub(super) fn apart(&self) -> f64 {
        let first = |steps: &[Steps]| {
            steps.first().and_then(|steps| steps.grad_norms.first().copied()).unwrap_or(f64::NAN)
        };
        (first(&self.ours) / first(&self.theirs) - 1.0).abs()
    }
}

/// Measures one workload, half of the rounds at a time.
pub(super) fn measured(
    work: Work,
    rounds: u32,
    samples: &[Asked],
    folder: &Path,
) -> Result<Outcome, Failure> {
    let folders = Folders {
        model: folder.join("large"),
        adapter: folder.join("adapter"),
        checkpoints: folder.join("checkpoints"),
    };
    folders.fill()?;
    let budget = budget(work, &folders.model)?;
    let mut peer = Peer::start_with_gpus(SCRIPT, folder)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let halves = [rounds.div_ceil(2), rounds / 2];
    for rounds in halves.into_iter().filter(|&rounds| rounds > 0) {
        ours.push(own_steps(work, rounds, samples, &folders)?);
        release_gpu_memory()?;
        let request = Request {
            folder: &folders.model,
            adapter: (work == Work::LargeLora).then_some(&*folders.adapter),
            samples,
            micro_batch: MemoryNeeds::MICRO_BATCH_TOKENS,
            rounds,
            learning_rate: LEARNING_RATE,
        };
        theirs.push(peer.ask(&request)?);
    }
    Ok(Outcome { ours, theirs, budget })
}

impl Folders {
    /// Writes model and adapter unless they exist.
    fn fill(&self) -> Result<(), Failure> {
        if self.model.exists() {
            return Ok(());
        }
        fs::create_dir(&self.model)?;
        fs::create_dir(&self.adapter)?;
        let (files, config) = (ModelFiles::of(&self.model), four_billion());
        files.write_config(&config)?;
        let lora = LoraConfig { rank: 16, alpha: 32.0, targets: LoraTarget::ALL.to_vec() };
        let adapter = init_adapter(&config, &lora, 1, Device::Cpu)?;
        save_adapter(&AdapterFiles::of(&self.adapter), &adapter, &self.model.to_string_lossy())?;
        save_params(&files, &random_params(Arc::new(ParamLayout::new(config)), 1, Device::Cuda(0))?)?;
        Ok(release_gpu_memory()?)
    }
}

/// The shape of Qwen3-4B.
fn four_billion() -> ModelConfig {
    ModelConfig {
        vocab_size: 151_936,
        hidden_size: 2_560,
        intermediate_size: 9_728,
        num_hidden_layers: 36,
        num_attention_heads: 32,
        num_key_value_heads: 8,
        head_dim: 128,
        max_position_embeddings: 40_960,
        rope_theta: 1_000_000.0,
        initializer_range: 0.02,
        dtype: "bfloat16".to_owned(),
        ..ModelConfig::tiny(151_936, 151_645)
    }
}

/// The memory budget that `clawrl plan` prints for a training of this kind.
fn budget(work: Work, model: &Path) -> Result<MemoryBudget, Failure> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("suite.yaml"), "")?;
    let lora = if work == Work::LargeLora { "rl: { lora: {} }" } else { "rl: {}" };
    let path = folder.path().join("train.yaml");
    let text = format!(
        "format: 1\ntrain: bench\npolicy: {{ path: {model:?} }}\nsuites: [{{ path: suite.yaml }}]\n{lora}\n\
         engine: {{ device: cuda, dtype: bf16, activations: recompute }}\n"
    );
    fs::write(&path, text)?;
    let plan = load_train(&path)?;
    let (shape, split) =
        (ModelShape::of(&plan.policy)?, DeviceSplit { learner: 0..1, engine: 1..1, judge: 0..0 });
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32;
    Ok(MemoryNeeds { plan: &plan, shape, split: &split, concurrency: 64, cores }.budget())
}

/// The learner's side, from loading to freeing.
fn own_steps(work: Work, rounds: u32, samples: &[Asked], folders: &Folders) -> Result<Steps, Failure> {
    reset_gpu_peak(GPU)?;
    configure_threads(std::thread::available_parallelism()?)?;
    let mut learner = learner(work, folders)?;
    let batch = train_batch(samples);
    let mut steps = Steps { wall_s: Vec::new(), grad_norms: Vec::new(), peak_mib: 0.0 };
    for round in 0..=rounds {
        let began = Instant::now();
        // The update reads the gradient norm from the GPU but only starts the optimizer step.
        let report = learner.update(&batch)?;
        clawrl_torch::synchronize(GPU);
        if round > 0 {
            steps.wall_s.push(began.elapsed().as_secs_f64());
        }
        steps.grad_norms.push(report.grad_norm);
    }
    steps.peak_mib = gpu_memory(GPU)?.peak as f64 / MIB;
    Ok(steps)
}

fn learner(work: Work, folders: &Folders) -> Result<TorchLearner, Failure> {
    let (files, gpu) = (ModelFiles::of(&folders.model), Device::Cuda(0));
    let loss = PolicyLoss { weighting: Weighting::None, ..PolicyLoss::default() };
    let config =
        LearnerConfig { activations: Activations::Recompute, dtype: Dtype::Bf16, ..learner_config(loss) };
    let (params, base): (Params, Option<Base>) = if work == Work::LargeLora {
        let model = load_params(&files, Device::Cpu)?;
        let adapter = load_adapter(&AdapterFiles::of(&folders.adapter), model.layout().config(), gpu)?;
        (adapter, Some(Base { params: model, found: folders.model.to_string_lossy().into_owned() }))
    } else {
        (load_params(&files, gpu)?, None)
    };
    Ok(TorchLearner::new(LearnerSetup {
        config,
        params,
        base,
        version: 0,
        reference: None,
        publisher: Box::new(Unpublished),
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(&folders.checkpoints, Retention { weights: 1, moments: 1 }),
        model: &files,
    })?)
}

/// Both sides with their steps.
pub(super) fn sides(outcome: &Outcome) -> [(Side, &[Steps]); 2] {
    [(Side::Learner, &outcome.ours), (Side::Transformers, &outcome.theirs)]
}
