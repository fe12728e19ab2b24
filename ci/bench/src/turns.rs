//! How far apart the tokens of a sequence come while the same cores learn, against an engine that is alone.
//!
//! - `idle`: `--running` sequences are sampled, and nobody learns.
//! - `beside`: a learner computes gradients of batches meanwhile, on its own thread, and nobody makes way.
//! - `turns`: the same, with the learner making way between its segments.
//!
//! By turns in the same process. A gap is the time from one decoding step's end to the next one's: each running sequence gets a token in
//! each, so it is what lies between two of its tokens. What the learner gets done meanwhile is told beside it: tokens a second through
//! forward and backward.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clawrl_core::{AttemptId, SlotId, SplitMix64};
use clawrl_learn::{Objective, PolicyLoss, Segment, TrainBatch, TrainSample, Weighting};
use clawrl_torch::{
    Alone, Checkpoints, Device, Dtype, Engine, EngineConfig, EngineObserver, EngineWork, GenerateRequest,
    LearnerConfig, LearnerSetup, ModelConfig, ModelFiles, ParamLayout, Params, Retention, TorchLearner,
    Turns, Unpublished, configure_threads, init_params,
};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::Failure;
use crate::rows;
use crate::table::{Sample, render};
use crate::training::learner_config;

/// The row of the design that this area answers to: of the 95th percentile.
const AT_MOST: f64 = 3.0;
const VOCABULARY: i64 = 1_500;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Sequences that are sampled.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    running: u32,
    /// Tokens of each.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=2000))]
    tokens: u32,
    /// Samples of the learner's batch, of 128 tokens each.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Threads of the learner.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    learner_threads: u32,
    /// Type of the weights.
    #[arg(long, value_enum, default_value_t = Weights::Fp32)]
    weights: Weights,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Weights {
    /// The learner's own passes, in pieces of up to 1,024 rows.
    Fp32,
    /// Passes by autograd, layer by layer.
    Bf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Idle,
    Beside,
    Turns,
}

impl Side {
    const ALL: [Self; 3] = [Self::Idle, Self::Beside, Self::Turns];

    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Beside => "beside",
            Self::Turns => "turns",
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    weights: Weights,
    running: u32,
    round: u32,
    median_ms: f64,
    p95_ms: f64,
    worst_ms: f64,
    learned_tokens_per_s: f64,
}

/// When decoding steps ended. The engine's observer is a function, so they have a place of their own.
static ENDS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

fn hear(work: EngineWork, _took: Duration) {
    if work == EngineWork::Decode {
        ends().push(Instant::now());
    }
}

fn ends() -> std::sync::MutexGuard<'static, Vec<Instant>> {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let layout = Arc::new(ParamLayout::new(ModelConfig::tiny(VOCABULARY, 0)));
    let params = init_params(layout, 1, Device::Cpu)?;
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        for side in Side::ALL {
            let row = measured(arguments, &params, side, round)?;
            if round > 0 {
                rows.push(row);
            }
        }
    }
    rows::append(out, "turns", &rows)?;
    Ok(table(arguments, &rows))
}

fn measured(arguments: &Arguments, params: &Params, side: Side, round: u32) -> Result<Row, Failure> {
    let turns = if side == Side::Turns { Turns::shared() } else { Turns::default() };
    let dtype = match arguments.weights {
        Weights::Fp32 => Dtype::Fp32,
        Weights::Bf16 => Dtype::Bf16,
    };
    let engine = Engine::start(
        EngineConfig {
            max_batch: arguments.running as usize,
            share_prefixes: false,
            dtype,
            turns: turns.clone(),
            observer: Some(EngineObserver(hear)),
            ..EngineConfig::default()
        },
        0,
        params,
    )?;
    let (over, learned) = (AtomicBool::new(false), AtomicU64::new(0));
    let (over, learned) = (&over, &learned);
    thread::scope(|scope| {
        let learner = (side != Side::Idle).then(|| {
            let params = params.copy();
            scope.spawn(move || learn_until(over, learned, arguments, params?, dtype, turns))
        });
        // From the first gradients on, so that both sides are at work.
        while learner.as_ref().is_some_and(|learner| !learner.is_finished())
            && learned.load(Ordering::SeqCst) == 0
        {
            thread::yield_now();
        }
        ends().clear();
        let before = learned.load(Ordering::SeqCst);
        let start = Instant::now();
        let sampled = sample(arguments, &engine);
        let (took, after) = (start.elapsed(), learned.load(Ordering::SeqCst));
        over.store(true, Ordering::SeqCst);
        engine.shutdown();
        if let Some(learner) = learner {
            learner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        sampled?;
        let gaps: Vec<f64> = ends().windows(2).map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64()).collect();
        if gaps.len() < arguments.tokens as usize / 2 {
            return Err(format!("{} gaps of {} tokens", gaps.len(), arguments.tokens).into());
        }
        let gaps = Sample::new(gaps);
        Ok(Row {
            side,
            weights: arguments.weights,
            running: arguments.running,
            round,
            median_ms: gaps.median(),
            p95_ms: gaps.quantile(0.95),
            worst_ms: gaps.quantile(1.0),
            learned_tokens_per_s: (after - before) as f64 / took.as_secs_f64(),
        })
    })
}

/// All sequences, to their ends.
fn sample(arguments: &Arguments, engine: &Engine) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).build()?;
    runtime.block_on(async {
        let mut replies = JoinSet::new();
        for number in 0..arguments.running {
            let (handle, max_new_tokens) = (engine.handle(), arguments.tokens);
            let request = GenerateRequest {
                prompt: Arc::from([1, 2 + number]),
                max_new_tokens,
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                seed: u64::from(number),
                stop_ids: Vec::new(),
                adapter: None,
            };
            replies.spawn(async move { handle.generate(request).await });
        }
        while let Some(reply) = replies.join_next().await {
            reply??;
        }
        Ok(())
    })
}

/// Gradients of a batch, over and over.
fn learn_until(
    over: &AtomicBool,
    learned: &AtomicU64,
    arguments: &Arguments,
    params: Params,
    dtype: Dtype,
    turns: Turns,
) -> Result<(), Failure> {
    configure_threads(NonZeroUsize::new(arguments.learner_threads as usize).unwrap_or(NonZeroUsize::MIN))?;
    let loss = PolicyLoss { weighting: Weighting::None, ..PolicyLoss::default() };
    let folder = tempfile::tempdir()?;
    let mut learner = TorchLearner::new(LearnerSetup {
        config: LearnerConfig { dtype, ..learner_config(loss) },
        params,
        base: None,
        version: 0,
        reference: None,
        publisher: Box::new(Unpublished),
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(folder.path(), Retention { weights: 1, moments: 1 }),
        model: &ModelFiles::of(folder.path()),
    })?;
    learner.take_turns(turns);
    let batch = batch(arguments.samples);
    let tokens: usize = batch.samples.iter().map(|sample| sample.segment.len()).sum();
    while !over.load(Ordering::SeqCst) {
        learner.gradients_of(&batch)?;
        learned.fetch_add(tokens as u64, Ordering::SeqCst);
    }
    Ok(())
}

/// Samples of 64 tokens of context and 64 that are trained.
fn batch(samples: u32) -> TrainBatch {
    let mut random = SplitMix64::new(7);
    let mut drawn = || random.below(VOCABULARY.unsigned_abs()) as u32;
    let mut sample = |number: u32| {
        let mut segment = Segment::default();
        let context: Vec<u32> = (0..64).map(|_| drawn()).collect();
        segment.push_context(&context);
        (0..64).for_each(|_| segment.push_sampled(0, drawn(), -7.0, 0, 1.0));
        TrainSample {
            attempt: AttemptId { slot: SlotId(number), number: 0 },
            advantages: vec![if number.is_multiple_of(2) { 1.0 } else { -1.0 }; segment.len()],
            segment,
            episode: number,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    };
    let samples = (0..samples).map(&mut sample).collect();
    TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 }
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let header = ["side", "median, ms", "p95, ms", "worst, ms", "p95, times idle", "learned, tokens/s"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let of = |side: Side, value: fn(&Row) -> f64| {
        Sample::new(rows.iter().filter(|row| row.side == side).map(value).collect())
    };
    let ratios = |side: Side| {
        let of_round = |side: Side, round: u32| {
            rows.iter().find(|row| (row.side, row.round) == (side, round)).map_or(f64::NAN, |row| row.p95_ms)
        };
        let rounds = 1..=arguments.rounds;
        Sample::new(rounds.map(|round| of_round(side, round) / of_round(Side::Idle, round)).collect())
    };
    for side in Side::ALL {
        lines.push(vec![
            side.name().to_owned(),
            of(side, |row| row.median_ms).summary(),
            of(side, |row| row.p95_ms).summary(),
            of(side, |row| row.worst_ms).summary(),
            ratios(side).summary(),
            of(side, |row| row.learned_tokens_per_s).summary(),
        ]);
    }
    let reached = ratios(Side::Turns).median();
    format!(
        "{} sequences of {} tokens, {} threads of the learner, median (least-greatest) of {} rounds\n\n{}\ntarget: with turns at most \
         {AT_MOST} x the idle p95: {} ({reached:.2})\n",
        arguments.running,
        arguments.tokens,
        arguments.learner_threads,
        arguments.rounds,
        render(&lines),
        if reached <= AT_MOST { "met" } else { "missed" },
    )
}
