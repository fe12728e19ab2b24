//! Time from publishing new weights to the first token sampled with them, compared with copying the same bytes.
//!
//! - `copy`: one copy of the parameters into new memory, which any design needs whose learner continues to write to them.
//! - `publish`: from the call to the one-token reply of a request that is sent when the call returns. This includes a copy
//!   in the engine's order of the matrices, the rest of the running step, and one step.
//!
//! Both alternate in one process while `--running` sequences are sampled. The time contains two decode steps, and copying a
//! tiny policy takes less than a step; so the ratio is about weights only for large ones. `wide` has 64 million parameters.
//!
//! Meanwhile one-token requests follow each other; each takes at most the rest of the running step and its own step.
//! `delay` is the time beyond these two steps of the slowest request that overlapped a swap, in decode steps: the median
//! over the swaps, and the maximum. `otherwise` is the same for requests that overlapped neither a swap nor a copy: the
//! noise of the machine.

mod load;

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use clawrl_torch::{Device, Engine, EngineConfig, ModelConfig, ParamLayout, Params, init_params};
use serde::Serialize;
use tokio::runtime::Builder;

use crate::Failure;
use crate::rows;
use crate::table::{Sample, render};
use load::Measured;

/// Target.
const AT_MOST: f64 = 2.0;
const DELAY_AT_MOST: f64 = 1.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds per shape, after one warm-up round.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Swaps per round, and as many copies.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    swaps: u32,
    /// Model shapes.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Shape::Tiny, Shape::Wide])]
    shapes: Vec<Shape>,
    /// Sequences that are sampled meanwhile.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 8])]
    running: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    /// The preset `tiny`: 0.6 million parameters.
    Tiny,
    /// 64 million parameters.
    Wide,
}

impl Shape {
    fn config(self) -> ModelConfig {
        match self {
            Self::Tiny => ModelConfig::tiny(1_500, 5),
            Self::Wide => ModelConfig {
                hidden_size: 768,
                intermediate_size: 2_048,
                num_hidden_layers: 8,
                num_attention_heads: 12,
                num_key_value_heads: 4,
                head_dim: 64,
                ..ModelConfig::tiny(16_384, 5)
            },
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    shape: Shape,
    running: u32,
    round: u32,
    #[serde(flatten)]
    measured: Measured,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let models: Vec<(Shape, Params)> = arguments
        .shapes
        .iter()
        .map(|&shape| {
            let layout = Arc::new(ParamLayout::new(shape.config()));
            Ok((shape, init_params(layout, 1, Device::Cpu)?))
        })
        .collect::<Result<_, Failure>>()?;
    let runtime = Builder::new_multi_thread().enable_time().build()?;
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        for (shape, params) in &models {
            for &running in &arguments.running {
                // Otherwise the prompts of one-token requests would be cached.
                let config = EngineConfig { share_prefixes: false, ..EngineConfig::default() };
                let engine = Engine::start(config, 0, params)?;
                let measured = runtime.block_on(load::measure(&engine, params, running, arguments.swaps))?;
                engine.shutdown();
                if round > 0 {
                    rows.push(Row { shape: *shape, running, round, measured });
                }
            }
        }
    }
    rows::append(out, "weight-swap", &rows)?;
    Ok(table(arguments, &rows))
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let header = [
        "model",
        "running",
        "copy, ms",
        "publish to token, ms",
        "publish call",
        "decode step, ms",
        "delay, steps",
        "worst",
        "otherwise",
        "ratio",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let mut verdicts = Vec::new();
    let verdict = |met: bool| if met { "met" } else { "missed" };
    for &shape in &arguments.shapes {
        for &running in &arguments.running {
            let of = |value: fn(&Measured) -> f64| {
                let picked = rows.iter().filter(|row| (row.shape, row.running) == (shape, running));
                Sample::new(picked.map(|row| value(&row.measured)).collect())
            };
            let name = shape.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
            let ratio = of(Measured::ratio);
            let delay = of(|measured| measured.delay_steps);
            verdicts.push(format!(
                "{name} with {running} running: {} ({:.2}), delay {} ({:.2})",
                verdict(ratio.median() <= AT_MOST),
                ratio.median(),
                verdict(delay.median() <= DELAY_AT_MOST),
                delay.median(),
            ));
            lines.push(vec![
                name,
                running.to_string(),
                of(|measured| measured.copy_ms).summary(),
                of(|measured| measured.token_ms).summary(),
                of(|measured| measured.publish_ms).summary(),
                of(|measured| measured.step_ms).summary(),
                delay.summary(),
                of(|measured| measured.worst_delay_steps).summary(),
                of(|measured| measured.otherwise_steps).summary(),
                ratio.summary(),
            ]);
        }
    }
    format!(
        "{} swaps a round, median (min-max) of {} rounds; no request failed\n\n{}\ntarget: at most {AT_MOST} times \
         the copy, no request delayed by more than {DELAY_AT_MOST} decode step: {}\n",
        arguments.swaps,
        arguments.rounds,
        render(&lines),
        verdicts.join("; "),
    )
}
