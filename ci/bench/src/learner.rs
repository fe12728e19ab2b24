//! One optimizer step's loss and gradients with a tiny policy on the CPU, against transformers and PyTorch's autograd with
//! the same weights, tokens and loss.
//!
//! - `even`: all samples of one length, so that the peer pads nothing.
//! - `real`: replies of many lengths behind prompts of many lengths; the peer pads to the longest.
//! - `grouped`: the same prompt before each member of a group, two thirds of its tokens, which we compute once.
//! - `vocabulary`: a vocabulary of 151,936, as Qwen3 has it, for the memory.
//!
//! Both sides say loss and norm of the gradient, and an area in which they differ is an error. Memory is how far the resident set
//! rises over what it was before the step, by the kernel's high-water mark.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use clawrl_core::{AttemptId, SlotId, SplitMix64};
use clawrl_learn::{Objective, PolicyLoss, Segment, TrainBatch, TrainSample, Weighting};
use clawrl_torch::{
    Alone, Checkpoints, Device, LearnerSetup, ModelConfig, ModelFiles, ParamLayout, Retention, TorchLearner,
    Unpublished, configure_threads, init_params, load_params, save_params,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::Failure;
use crate::python::Peer;
use crate::rows;
use crate::table::{Sample, render};
use crate::training::learner_config;

const SCRIPT: &str = include_str!("../peers/transformers_learner.py");
/// As of the preset `tiny` with a full vocabulary.
const VOCABULARY: i64 = 1_500;
/// Of Qwen3.
const WIDE_VOCABULARY: i64 = 151_936;
/// How far the sides' losses and norms may be apart, relatively: rounding of fp32 in another order.
const TOLERANCE: f64 = 1e-3;
/// Log-probability that tokens were recorded with, which enters nothing without a correction. It is low, since segments that are far
/// less probable to the learner than they were recorded with are dropped.
const BEHAVIOUR: f32 = -30.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Samples of a batch; an eighth of them at the large vocabulary.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..))]
    samples: u32,
    /// Threads of libtorch, on both sides; one row each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// What is learned from.
    #[arg(
        long, value_enum, value_delimiter = ',',
        default_values_t = [Work::Even, Work::Real, Work::Grouped, Work::Vocabulary]
    )]
    work: Vec<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// 128 tokens each, half of them trained.
    Even,
    /// Prompts of 8 to 128 tokens, replies of 8 to 256.
    Real,
    /// Groups of 8 with one prompt of 128 tokens, replies of 64.
    Grouped,
    /// As `even`, with a vocabulary of 151,936.
    Vocabulary,
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
    threads: u32,
    round: u32,
    tokens: u64,
    wall_s: f64,
    peak_mib: f64,
}

/// A sample as the peer reads it.
#[derive(Debug, Clone, Serialize)]
struct Asked {
    ids: Vec<u32>,
    /// The first trained token.
    first: usize,
    advantage: f32,
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    folder: &'a Path,
    threads: u32,
    samples: &'a [Asked],
}

/// What a side made of a batch.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Done {
    wall_s: f64,
    loss: f64,
    grad_norm: f64,
    peak_mib: f64,
}

/// Models that both sides load.
struct Models {
    folder: TempDir,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let models = Models { folder: tempfile::tempdir()? };
    let mut peer = Peer::start(SCRIPT, models.folder.path())?;
    let mut rows = Vec::new();
    for &work in &arguments.work {
        let model = models.of(work)?;
        for &threads in &arguments.threads {
            let learner = models.learner(&model, threads)?;
            for round in 0..=arguments.rounds {
                let samples = asked(work, arguments.samples, u64::from(round) << 8 | work as u64);
                let ours = descended(&learner, &samples)?;
                let theirs: Done = peer.ask(&Request { folder: &model, threads, samples: &samples })?;
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
    rows::append(out, "learner", &rows)?;
    Ok(format!("{}\n{}\n", table(arguments, &rows), peer.versions))
}

impl Models {
    /// The folder of the model for this work.
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
            params: load_params(&files, Device::Cpu)?,
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

/// The samples of a round.
fn asked(work: Work, samples: u32, seed: u64) -> Vec<Asked> {
    let mut random = SplitMix64::new(seed);
    let vocabulary = if work == Work::Vocabulary { WIDE_VOCABULARY } else { VOCABULARY };
    let count = if work == Work::Vocabulary { samples / 8 } else { samples };
    let mut prompt = Vec::new();
    let mut one = |number: u32| {
        let (first, reply) = match work {
            Work::Even | Work::Vocabulary => (64, 64),
            Work::Real => (8 + random.below(121), 8 + random.below(249)),
            Work::Grouped => (128, 64),
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

/// Our side.
fn descended(learner: &TorchLearner, samples: &[Asked]) -> Result<Done, Failure> {
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
    let batch = TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 };
    fs::write("/proc/self/clear_refs", "5")?;
    let before = status_mib("VmRSS")?;
    let began = Instant::now();
    let (loss, gradients) = learner.gradients_of(&batch)?;
    let wall_s = began.elapsed().as_secs_f64();
    let peak_mib = status_mib("VmHWM")? - before;
    Ok(Done { wall_s, loss, grad_norm: gradients.norm()?, peak_mib })
}

/// A figure of `/proc/self/status`, in MiB.
fn status_mib(key: &str) -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.ok_or_else(|| format!("/proc/self/status has no {key}"))? / 1024.0)
}

/// Refuses to compare what computes something else.
fn agree(ours: Done, theirs: Done) -> Result<(), Failure> {
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * b.abs().max(1e-3);
    if near(ours.loss, theirs.loss) && near(ours.grad_norm, theirs.grad_norm) {
        return Ok(());
    }
    Err(format!(
        "the sides do not compute the same: loss {} and {}, norm of the gradient {} and {}",
        ours.loss, theirs.loss, ours.grad_norm, theirs.grad_norm
    )
    .into())
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let header = [
        "work",
        "threads",
        "learner, ms",
        "PyTorch, ms",
        "times as fast",
        "learner, MiB",
        "PyTorch, MiB",
        "target",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for &work in &arguments.work {
        for &threads in &arguments.threads {
            let of = |side: Side| {
                rows.iter().filter(move |row| (row.side, row.work, row.threads) == (side, work, threads))
            };
            let time = |side| {
                Sample::new(of(side).filter(|row| row.round > 0).map(|row| 1e3 * row.wall_s).collect())
            };
            // The first step is the one that finds no memory of a step before it.
            let memory = |side| of(side).filter(|row| row.round == 0).map(|row| row.peak_mib).sum::<f64>();
            let (ours, theirs) = (time(Side::Learner), time(Side::Transformers));
            let ratio = theirs.median() / ours.median();
            let share = memory(Side::Learner) / memory(Side::Transformers);
            let verdict = |met: bool| if met { "met" } else { "missed" };
            let target = match work {
                Work::Even => format!("at least 0.97: {}", verdict(ratio >= 0.97)),
                Work::Real | Work::Grouped => format!("at least 1.5: {}", verdict(ratio >= 1.5)),
                Work::Vocabulary => format!("memory at most 0.5 ({share:.2}): {}", verdict(share <= 0.5)),
            };
            let name = work.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
            lines.push(vec![
                name,
                threads.to_string(),
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
        "{} samples, median (least-greatest) of {} rounds; memory of the first step\n\n{}",
        arguments.samples,
        arguments.rounds,
        render(&lines)
    )
}
