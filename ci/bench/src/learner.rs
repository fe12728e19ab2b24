//! Loss and gradients of one optimizer step with a tiny policy, compared with transformers and PyTorch autograd with the same
//! weights, tokens and loss; on the CPU, or on a GPU if there is one.
//!
//! - `even`: samples of equal length, so the peer needs no padding.
//! - `real`: prompts and replies of many lengths; the peer pads to the longest.
//! - `grouped`: members of a group share a prompt of two thirds of the tokens, which ClawRL computes once.
//! - `vocabulary`: a vocabulary of 151,936 as in Qwen3, to compare memory.
//!
//! On a GPU there are two more: whole steps of a model with four billion parameters, see [`large`].
//!
//! Both sides report loss and gradient norm; the benchmark fails if they differ. Memory is the peak resident set of the step
//! less the resident set before it, from the kernel's high-water mark; on a GPU, the same for allocated tensors.

mod large;

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use clawrl_core::{AttemptId, SlotId, SplitMix64};
use clawrl_learn::{Objective, PolicyLoss, Segment, TrainBatch, TrainSample, Weighting};
use clawrl_torch::{
    Activations, Alone, Checkpoints, CudaFacts, Device, Dtype, LearnerConfig, LearnerSetup, ModelConfig,
    ModelFiles, OptimizerConfig, ParamLayout, Retention, TorchLearner, Unpublished, configure_threads,
    gpu_memory, init_params, load_params, probe, reset_gpu_peak, save_params, synchronize,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::Failure;
use crate::python::Peer;
use crate::rows;
use crate::table::{Sample, render};

const SCRIPT: &str = include_str!("../peers/transformers_learner.py");
/// The learning rate of the tiny policy's recipe.
const LEARNING_RATE: f64 = 5e-4;
/// Vocabulary of the preset `tiny`.
const VOCABULARY: i64 = 1_500;
/// Vocabulary of Qwen3.
const WIDE_VOCABULARY: i64 = 151_936;
/// Maximum relative difference of losses and norms: fp32 rounding in another order.
const TOLERANCE: f64 = 1e-3;
/// The same for the first gradient in bf16, which the sides round at different places.
const LARGE_TOLERANCE: f64 = 0.02;
/// Recorded log-probability of all tokens. It enters no computation without importance weights. It is low because segments
/// that are much less probable now than when they were recorded are dropped.
const BEHAVIOUR: f32 = -30.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds per side, after one warm-up round.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Samples per batch; an eighth for `vocabulary`.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..))]
    samples: u32,
    /// Threads of libtorch on both sides; one row for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// Device of both sides.
    #[arg(long, value_enum, default_value_t = Hardware::Auto)]
    device: Hardware,
    /// Workloads [default: all that fit the device].
    #[arg(long, value_enum, value_delimiter = ',')]
    work: Vec<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hardware {
    /// A GPU if libtorch finds one.
    Auto,
    Cpu,
    Cuda,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// Samples of 128 tokens, half of them trained.
    Even,
    /// Prompts of 8 to 128 tokens, replies of 8 to 256.
    Real,
    /// Groups of 8 with a shared prompt of 128 tokens and replies of 64.
    Grouped,
    /// Like `even`, with a vocabulary of 151,936.
    Vocabulary,
    /// On a GPU: a step of an adapter on a model like Qwen3-4B in bf16; a quarter of the samples, 1,024 tokens each, half trained.
    LargeLora,
    /// The same for the whole model.
    LargeFull,
}

impl Work {
    fn is_large(self) -> bool {
        matches!(self, Self::LargeLora | Self::LargeFull)
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Learner,
    Transformers,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    work: Work,
    /// 0 on a GPU.
    threads: u32,
    round: u32,
    tokens: u64,
    wall_s: f64,
    peak_mib: f64,
}

/// A sample in the peer's format.
#[derive(Debug, Clone, Serialize)]
struct Asked {
    ids: Vec<u32>,
    /// Index of the first trained token.
    first: usize,
    advantage: f32,
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    folder: &'a Path,
    device: &'a str,
    threads: u32,
    samples: &'a [Asked],
}

/// Result of one side for a batch.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Done {
    wall_s: f64,
    loss: f64,
    grad_norm: f64,
    peak_mib: f64,
}

/// Models that both sides load, and the device.
struct Models {
    folder: TempDir,
    device: Device,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let device = device(arguments.device)?;
    let works = works(arguments, device)?;
    let models = Models { folder: tempfile::tempdir()?, device };
    let mut peer = match device {
        Device::Cuda(_) => Peer::start_with_gpus(SCRIPT, models.folder.path())?,
        _ => Peer::start(SCRIPT, models.folder.path())?,
    };
    let mut rows = Vec::new();
    let threads = if device.is_cuda() { &[0][..] } else { &arguments.threads };
    for &work in works.iter().filter(|work| !work.is_large()) {
        let model = models.of(work)?;
        for &threads in threads {
            let learner = models.learner(&model, threads)?;
            for round in 0..=arguments.rounds {
                let samples = asked(work, arguments.samples, u64::from(round) << 8 | work as u64);
                let ours = descended(&learner, &samples, device)?;
                let name = if device.is_cuda() { "cuda" } else { "cpu" };
                let request = Request { folder: &model, device: name, threads, samples: &samples };
                let theirs: Done = peer.ask(&request)?;
                agree(ours, theirs)?;
                let tokens = samples.iter().map(|sample| sample.ids.len() as u64).sum();
                let row = |side, Done { wall_s, peak_mib, .. }: Done| Row {
                    side,
                    work,
                    threads,
                    round,
                    tokens,
                    wall_s,
                    peak_mib,
                };
                rows.extend([row(Side::Learner, ours), row(Side::Transformers, theirs)]);
            }
        }
    }
    let mut text = format!("{}\n{}\n", table(arguments, (&works, threads), &rows), peer.versions);
    // The peer's process occupies GPU memory.
    drop(peer);
    if works.iter().any(|work| work.is_large()) {
        text.push_str(&measure_large(arguments, &works, models.folder.path(), &mut rows)?);
    }
    rows::append(out, "learner", &rows)?;
    Ok(text)
}

/// Selects the device.
fn device(asked: Hardware) -> Result<Device, Failure> {
    match (asked, &probe()?.cuda) {
        (Hardware::Cpu, _) | (Hardware::Auto, CudaFacts::Absent { .. }) => Ok(Device::Cpu),
        (_, CudaFacts::Available { .. }) => Ok(Device::Cuda(0)),
        (Hardware::Cuda, CudaFacts::Absent { reason }) => Err(format!("no GPU: {reason}").into()),
    }
}

/// The requested workloads, or all that fit the device.
fn works(arguments: &Arguments, device: Device) -> Result<Vec<Work>, Failure> {
    let all = Work::value_variants().iter().copied();
    if arguments.work.is_empty() {
        return Ok(all.filter(|work| device.is_cuda() || !work.is_large()).collect());
    }
    match arguments.work.iter().find(|work| work.is_large()).filter(|_| !device.is_cuda()) {
        Some(work) => Err(format!("`{}` needs a GPU", work.name()).into()),
        None => Ok(arguments.work.clone()),
    }
}

/// Runs the workloads of the large model; returns their table and adds their rows.
fn measure_large(
    arguments: &Arguments,
    works: &[Work],
    folder: &Path,
    rows: &mut Vec<Row>,
) -> Result<String, Failure> {
    let header =
        ["work", "tokens/s", "PyTorch, tokens/s", "speedup", "MiB", "budget, MiB", "PyTorch, MiB", "target"];
    let (mut lines, mut budgets) = (vec![header.map(str::to_owned).to_vec()], String::new());
    for &work in works.iter().filter(|work| work.is_large()) {
        let samples = asked(work, arguments.samples, work as u64);
        let tokens: u64 = samples.iter().map(|sample| sample.ids.len() as u64).sum();
        let outcome = large::measured(work, arguments.rounds, &samples, folder)?;
        let mut speeds = Vec::new();
        let mut peaks = Vec::new();
        for (side, blocks) in large::sides(&outcome) {
            let walls: Vec<f64> = blocks.iter().flat_map(|steps| steps.wall_s.clone()).collect();
            let peak_mib = blocks.iter().map(|steps| steps.peak_mib).fold(0.0, f64::max);
            let rounds = (1..).zip(&walls);
            rows.extend(rounds.map(|(round, &wall_s)| Row {
                side,
                work,
                threads: 0,
                round,
                tokens,
                wall_s,
                peak_mib,
            }));
            speeds.push(Sample::new(walls.iter().map(|wall_s| tokens as f64 / wall_s).collect()));
            peaks.push(peak_mib);
        }
        let (ratio, budget) = (speeds[0].median() / speeds[1].median(), outcome.budget_mib());
        let verdict = |met: bool| if met { "met" } else { "missed" };
        lines.push(vec![
            work.name(),
            speeds[0].summary(),
            speeds[1].summary(),
            format!("{ratio:.2}"),
            format!("{:.0}", peaks[0]),
            format!("{budget:.0}"),
            format!("{:.0}", peaks[1]),
            format!(
                "at least 0.97: {}; within the budget: {}; gradient norms {:.2} % apart: {}",
                verdict(ratio >= 0.97),
                verdict(peaks[0] <= budget),
                100.0 * outcome.apart(),
                verdict(outcome.apart() <= LARGE_TOLERANCE)
            ),
        ]);
        budgets.push_str(&format!("\n{}, planned memory:\n\n{}", work.name(), outcome.budget));
    }
    Ok(format!("\n{}{budgets}", render(&lines)))
}

impl Models {
    /// Folder of the workload's model.
    fn of(&self, work: Work) -> Result<PathBuf, Failure> {
        let (name, vocabulary) = match work {
            Work::Vocabulary => ("wide", WIDE_VOCABULARY),
            _ => ("tiny", VOCABULARY),
        };
        let folder = self.folder.path().join(name);
        if !folder.exists() {
            fs::create_dir(&folder)?;
            let (files, config) = (ModelFiles::of(&folder), ModelConfig::tiny(vocabulary, 0));
            files.write_config(&config)?;
            save_params(&files, &init_params(Arc::new(ParamLayout::new(config)), 1, Device::Cpu)?)?;
        }
        Ok(folder)
    }

    fn learner(&self, model: &Path, threads: u32) -> Result<TorchLearner, Failure> {
        configure_threads(NonZeroUsize::new(threads as usize).unwrap_or(NonZeroUsize::MIN))?;
        let loss = PolicyLoss { weighting: Weighting::None, ..PolicyLoss::default() };
        let files = ModelFiles::of(model);
        Ok(TorchLearner::new(LearnerSetup {
            config: learner_config(loss),
            params: load_params(&files, self.device)?,
            base: None,
            version: 0,
            reference: None,
            publisher: Box::new(Unpublished),
            collective: Box::new(Alone),
            checkpoints: Checkpoints::new(
                &self.folder.path().join("checkpoints"),
                Retention { weights: 1, moments: 1 },
            ),
            model: &files,
        })?)
    }
}

/// One step of AdamW on each batch, nothing decayed, nothing skipped.
fn learner_config(loss: PolicyLoss) -> LearnerConfig {
    LearnerConfig {
        loss,
        optimizer: OptimizerConfig {
            learning_rate: LEARNING_RATE,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 0,
            decay: None,
        },
        minibatches: NonZeroU32::MIN,
        micro_batch_tokens: NonZeroU32::MIN.saturating_add(8_191),
        activations: Activations::Keep,
        max_skipped_steps: 0,
        teacher: None,
        dtype: Dtype::Fp32,
    }
}

/// The samples of a round.
fn asked(work: Work, samples: u32, seed: u64) -> Vec<Asked> {
    let mut random = SplitMix64::new(seed);
    let vocabulary = if work == Work::Vocabulary || work.is_large() { WIDE_VOCABULARY } else { VOCABULARY };
    let count = match work {
        Work::Vocabulary => samples / 8,
        Work::LargeLora | Work::LargeFull => samples / 4,
        _ => samples,
    };
    let mut prompt = Vec::new();
    let mut one = |number: u32| {
        let (first, reply) = match work {
            Work::Even | Work::Vocabulary => (64, 64),
            Work::Real => (8 + random.below(121), 8 + random.below(249)),
            Work::Grouped => (128, 64),
            Work::LargeLora | Work::LargeFull => (512, 512),
        };
        let mut drawn = |count: u64| -> Vec<u32> {
            (0..count).map(|_| random.below(vocabulary.unsigned_abs()) as u32).collect()
        };
        if work != Work::Grouped || number.is_multiple_of(8) {
            prompt = drawn(first);
        }
        let ids = [prompt.clone(), drawn(reply)].concat();
        let advantage = [1.0, -1.0, 0.5][number as usize % 3];
        Asked { ids, first: first as usize, advantage }
    };
    (0..count).map(&mut one).collect()
}

/// The samples as the learner's batch.
fn train_batch(samples: &[Asked]) -> TrainBatch {
    let sample = |(number, asked): (u32, &Asked)| {
        let (mut segment, context) = (Segment::default(), &asked.ids[..asked.first]);
        segment.push_context(context);
        asked.ids[asked.first..].iter().for_each(|&id| segment.push_sampled(0, id, BEHAVIOUR, 0, 1.0));
        TrainSample {
            attempt: AttemptId { slot: SlotId(number), number: 0 },
            advantages: vec![asked.advantage; segment.len()],
            segment,
            episode: number,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    };
    let samples = (0..).zip(samples).map(sample).collect();
    TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 }
}

/// The learner's side.
fn descended(learner: &TorchLearner, samples: &[Asked], device: Device) -> Result<Done, Failure> {
    let batch = train_batch(samples);
    let before = memory_mib(device, Memory::Now)?;
    let began = Instant::now();
    let (loss, gradients) = learner.gradients_of(&batch)?;
    if device.is_cuda() {
        synchronize(0);
    }
    let wall_s = began.elapsed().as_secs_f64();
    let peak_mib = memory_mib(device, Memory::Peak)? - before;
    Ok(Done { wall_s, loss, grad_norm: gradients.norm()?, peak_mib })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Current use; resets the peak.
    Now,
    Peak,
}

/// Current or peak memory of this process on the device.
fn memory_mib(device: Device, which: Memory) -> Result<f64, Failure> {
    const MIB: f64 = (1u64 << 20) as f64;
    match (device, which) {
        (Device::Cuda(_), Memory::Now) => {
            reset_gpu_peak(0)?;
            Ok(gpu_memory(0)?.allocated as f64 / MIB)
        }
        (Device::Cuda(_), Memory::Peak) => Ok(gpu_memory(0)?.peak as f64 / MIB),
        (_, Memory::Now) => {
            fs::write("/proc/self/clear_refs", "5")?;
            status_mib("VmRSS")
        }
        (_, Memory::Peak) => status_mib("VmHWM"),
    }
}

/// A value of `/proc/self/status`, in MiB.
fn status_mib(key: &str) -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.ok_or_else(|| format!("/proc/self/status has no {key}"))? / 1024.0)
}

/// Fails if the sides computed different things.
fn agree(ours: Done, theirs: Done) -> Result<(), Failure> {
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * b.abs().max(1e-3);
    if near(ours.loss, theirs.loss) && near(ours.grad_norm, theirs.grad_norm) {
        return Ok(());
    }
    Err(format!(
        "the sides differ: loss {} and {}, gradient norm {} and {}",
        ours.loss, theirs.loss, ours.grad_norm, theirs.grad_norm
    )
    .into())
}

fn table(arguments: &Arguments, (works, threads): (&[Work], &[u32]), rows: &[Row]) -> String {
    let header = [
        "work",
        "threads",
        "learner, ms",
        "PyTorch, ms",
        "speedup",
        "learner, MiB",
        "PyTorch, MiB",
        "target",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for &work in works.iter().filter(|work| !work.is_large()) {
        for &threads in threads {
            let of = |side: Side| {
                rows.iter().filter(move |row| (row.side, row.work, row.threads) == (side, work, threads))
            };
            let time = |side| {
                Sample::new(of(side).filter(|row| row.round > 0).map(|row| 1e3 * row.wall_s).collect())
            };
            // Only the first step allocates memory; later steps reuse it.
            let memory = |side| of(side).filter(|row| row.round == 0).map(|row| row.peak_mib).sum::<f64>();
            let (ours, theirs) = (time(Side::Learner), time(Side::Transformers));
            let ratio = theirs.median() / ours.median();
            let share = memory(Side::Learner) / memory(Side::Transformers);
            let verdict = |met: bool| if met { "met" } else { "missed" };
            let target = match work {
                Work::Even => format!("at least 0.97: {}", verdict(ratio >= 0.97)),
                Work::Real | Work::Grouped => format!("at least 1.5: {}", verdict(ratio >= 1.5)),
                _ => format!("memory at most 0.5 ({share:.2}): {}", verdict(share <= 0.5)),
            };
            lines.push(vec![
                work.name(),
                if threads == 0 { "GPU".to_owned() } else { threads.to_string() },
                ours.summary(),
                theirs.summary(),
                format!("{ratio:.2}"),
                format!("{:.0}", memory(Side::Learner)),
                format!("{:.0}", memory(Side::Transformers)),
                target,
            ]);
        }
    }
    format!(
        "{} samples, median (min-max) of {} rounds; memory of the first step\n\n{}",
        arguments.samples,
        arguments.rounds,
        render(&lines)
    )
}
