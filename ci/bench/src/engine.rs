//! Tokens per second of the engine with a tiny policy on the CPU, compared with `generate` of transformers with the same
//! weights.
//!
//! Both sides continue the same prompts greedily by the same number of tokens, on the same number of libtorch threads;
//! nothing else ends a reply. At most `--batch` requests run concurrently.
//!
//! - `ragged`: prompts and replies of many lengths. The engine gets the next request as soon as one is answered. `generate`
//!   gets the next batch, padded on the left, when the longest reply of the previous batch is complete.
//! - `even`: prompts and replies of equal length, the best case for `generate`: no padding and no waiting.
//!
//! Only requested tokens are counted. The benchmark prints the share of equal tokens, and fails if fewer than nine of ten
//! replies begin with the same token. Rounding differs, so two tokens of nearly equal probability may change places.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use clawrl_core::SplitMix64;
use clawrl_torch::{Engine, EngineConfig, EngineHandle, GenerateRequest};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::Failure;
use crate::python::Peer;
use crate::rows;
use crate::table::{Sample, render};
use crate::tiny::TinyPolicy;

const SCRIPT: &str = include_str!("../peers/transformers_generate.py");
/// Target.
const AT_LEAST: f64 = 5.0;
/// Ids below this are special tokens.
const FIRST_WORD: u64 = 300;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds per side, after one warm-up round.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Requests per round.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Maximum number of concurrent requests.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Threads of libtorch on both sides; one row for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// Lengths of prompts and replies.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Lengths::Ragged, Lengths::Even])]
    lengths: Vec<Lengths>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Lengths {
    /// Prompts of 8 to 128 tokens, replies of 16 to 128.
    Ragged,
    /// Prompts of 64 tokens, replies of 64.
    Even,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Engine,
    Transformers,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    lengths: Lengths,
    threads: u32,
    round: u32,
    requests: u32,
    tokens: u64,
    tokens_per_s: f64,
}

/// A prompt and the number of tokens to continue it by.
type Asked = (Arc<[u32]>, u32);

#[derive(Debug, Serialize)]
struct Work<'a> {
    threads: u32,
    batch: u32,
    requests: &'a [Asked],
}

/// Replies of one side to the requests of a round.
#[derive(Debug, Deserialize)]
struct Done {
    wall_s: f64,
    /// In the order of the requests.
    replies: Vec<Vec<u32>>,
}

/// Agreement of the two sides' tokens.
#[derive(Debug, Default)]
struct Agreement {
    tokens: u64,
    equal_tokens: u64,
    replies: u64,
    equal_beginnings: u64,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let policy = TinyPolicy::new()?;
    let params = policy.params()?;
    let vocabulary = params.layout().config().vocab_size.unsigned_abs();
    let mut peer = Peer::start(SCRIPT, &policy.path())?;
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let (mut rows, mut agreement) = (Vec::new(), Agreement::default());
    for round in 0..=arguments.rounds {
        for &threads in &arguments.threads {
            for &lengths in &arguments.lengths {
                // New prompts in every round, so that no side has them cached.
                let seed = u64::from(round) << 8 | lengths as u64;
                let requests = asked(arguments.requests, lengths, vocabulary, seed);
                let config = EngineConfig { threads: threads as usize, ..config(arguments) };
                let engine = Engine::start(config, 0, &params)?;
                let ours = continued(&runtime, &engine.handle(), &requests, arguments.batch)?;
                engine.shutdown();
                let work = Work { threads, batch: arguments.batch, requests: &requests };
                let theirs: Done = peer.ask(&work)?;
                agreement.compare(&requests, &ours, &theirs)?;
                if round > 0 {
                    rows.extend([(Side::Engine, ours), (Side::Transformers, theirs)].map(|(side, done)| {
                        let tokens = requests.iter().map(|(_, new)| u64::from(*new)).sum();
                        let tokens_per_s = tokens as f64 / done.wall_s;
                        Row {
                            side,
                            lengths,
                            threads,
                            round,
                            requests: arguments.requests,
                            tokens,
                            tokens_per_s,
                        }
                    }));
                }
            }
        }
    }
    agreement.check()?;
    rows::append(out, "engine", &rows)?;
    Ok(format!("{}\n{}; {}\n", table(arguments, &rows), agreement.describe(), peer.versions))
}

fn config(arguments: &Arguments) -> EngineConfig {
    EngineConfig { max_batch: arguments.batch as usize, ..EngineConfig::default() }
}

/// The requests of a round.
fn asked(count: u32, lengths: Lengths, vocabulary: u64, seed: u64) -> Vec<Asked> {
    let mut random = SplitMix64::new(seed);
    let mut one = || {
        let (prompt, new) = match lengths {
            Lengths::Ragged => (8 + random.below(121), 16 + random.below(113)),
            Lengths::Even => (64, 64),
        };
        let words = vocabulary.saturating_sub(FIRST_WORD).max(1);
        let ids: Arc<[u32]> =
            (0..prompt).map(|_| (vocabulary - words + random.below(words)) as u32).collect();
        (ids, new as u32)
    };
    (0..count).map(|_| one()).collect()
}

/// The engine: each client sends its next request as soon as it has an answer.
fn continued(
    runtime: &Runtime,
    engine: &EngineHandle,
    requests: &[Asked],
    clients: u32,
) -> Result<Done, Failure> {
    let (requests, next): (Arc<[Asked]>, _) = (Arc::from(requests), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (requests, next, engine) = (Arc::clone(&requests), Arc::clone(&next), engine.clone());
            tasks.spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((prompt, new)) = requests.get(index) else { return Ok::<_, Failure>(answers) };
                    answers.push((index, engine.generate(greedy(Arc::clone(prompt), *new)).await?.ids));
                }
            });
        }
        let mut replies = vec![Vec::new(); requests.len()];
        while let Some(answers) = tasks.join_next().await {
            for (index, ids) in answers?? {
                replies[index] = ids;
            }
        }
        Ok(Done { wall_s: began.elapsed().as_secs_f64(), replies })
    })
}

fn greedy(prompt: Arc<[u32]>, max_new_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        prompt,
        max_new_tokens,
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        seed: 0,
        stop_ids: Vec::new(),
        adapter: None,
    }
}

impl Agreement {
    /// Fails unless both sides replied to all requests with the requested number of tokens.
    fn compare(&mut self, requests: &[Asked], ours: &Done, theirs: &Done) -> Result<(), Failure> {
        for (index, (_, new)) in requests.iter().enumerate() {
            let (Some(ours), Some(theirs)) = (ours.replies.get(index), theirs.replies.get(index)) else {
                return Err(format!("request {index} lacks a reply").into());
            };
            if [ours.len(), theirs.len()] != [*new as usize; 2] {
                let lengths = (ours.len(), theirs.len());
                return Err(format!("replies of {lengths:?} tokens instead of {new}").into());
            }
            self.tokens += u64::from(*new);
            self.equal_tokens +=
                ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count() as u64;
            self.replies += 1;
            self.equal_beginnings += u64::from(ours.first() == theirs.first());
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        if 10 * self.equal_beginnings >= 9 * self.replies {
            return Ok(());
        }
        let Self { replies, equal_beginnings, .. } = self;
        Err(format!(
            "only {equal_beginnings} of {replies} replies begin with the same token: the weights differ"
        )
        .into())
    }

    fn describe(&self) -> String {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        format!(
            "{:.1} % of the replies begin with the same token, {:.1} % of the tokens are equal before the first difference",
            share(self.equal_beginnings, self.replies),
            share(self.equal_tokens, self.tokens),
        )
    }
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let speed = |lengths: Lengths, threads: u32, side: Side| {
        let picked =
            rows.iter().filter(|row| (row.lengths, row.threads, row.side) == (lengths, threads, side));
        Sample::new(picked.map(|row| row.tokens_per_s).collect())
    };
    let header = ["lengths", "threads", "engine, tokens/s", "transformers, tokens/s", "ratio"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let mut verdicts = Vec::new();
    for &lengths in &arguments.lengths {
        for &threads in &arguments.threads {
            let (ours, theirs) =
                (speed(lengths, threads, Side::Engine), speed(lengths, threads, Side::Transformers));
            let ratio = ours.median() / theirs.median();
            let name =
                lengths.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
            if lengths == Lengths::Ragged {
                let verdict = if ratio >= AT_LEAST { "met" } else { "missed" };
                verdicts.push(format!("at {threads} threads {verdict} ({ratio:.1})"));
            }
            lines.push(vec![
                name,
                threads.to_string(),
                ours.summary(),
                theirs.summary(),
                format!("{ratio:.2}"),
            ]);
        }
    }
    format!(
        "batch {}, {} requests, median (min-max) of {} rounds\n\n{}\ntarget: ragged at least {AT_LEAST} times: {}",
        arguments.batch,
        arguments.requests,
        arguments.rounds,
        render(&lines),
        if verdicts.is_empty() { "needs ragged lengths".to_owned() } else { verdicts.join("; ") },
    )
}
