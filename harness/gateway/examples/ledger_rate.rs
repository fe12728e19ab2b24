//! Answers and commits per second of the ledger, with one caller and with 256 concurrent ones.
//!
//! `cargo run --release -p clawrl-gateway --example ledger_rate [folder]`: creates the ledger in that folder, or in the system's temporary
//! folder, and removes it. The disk of the folder decides: a file system in memory does not sync. Each caller has one conversation of requests
//! with bodies of about 24 KB and answers of 200 tokens, as agents send them. For comparison: sequential writes of 4 KB with an fsync on the
//! same disk, and the compression of ids and log-probabilities.

#![allow(clippy::print_stdout, reason = "its figures are its output")]

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawrl_gateway::{
    ChatRequest, Exactness, Headers, NewAnswer, NewChoice, NewRequest, Recorder, RecorderHandle,
    RecorderSettings, UserId, VersionSegment,
};
use serde_json::json;

/// Duration of each measurement.
const MEASURED: Duration = Duration::from_secs(5);
const TOKENS: usize = 200;
const PROMPT: usize = 6000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("ledger-rate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &Path) -> Result<(), Box<dyn Error>> {
    println!("disk: {:.0} writes of 4 KB with an fsync each per second", syncs(folder)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    for callers in [1, 256] {
        let path = folder.join(format!("{callers}.db"));
        let recorder = Recorder::open(RecorderSettings::new(path.clone()))?;
        let begin = Instant::now();
        let talks: Vec<_> = (0..callers)
            .map(|caller| runtime.spawn(talk(recorder.handle(), caller, begin + MEASURED)))
            .collect();
        let mut answers = 0;
        for talk in talks {
            answers += runtime.block_on(talk)?.map_err(|error| error.to_string())?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let commits = recorder.handle().commits();
        drop(recorder);
        let bytes = std::fs::metadata(&path)?.len();
        println!(
            "{callers} callers: {:.0} answers per second (each arrived and answered), {:.0} commits per second, \
             {:.1} KB of file for each answer",
            f64::from(answers) / seconds,
            commits as f64 / seconds,
            bytes as f64 / f64::from(answers.max(1)) / 1024.0,
        );
    }
    let (ids, logprobs) = tokens(0);
    let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let logprobs: Vec<u8> = logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()).collect();
    for (name, bytes) in [("ids", ids), ("log-probabilities", logprobs)] {
        let compressed = zstd::bulk::compress(&bytes, 1)?.len();
        println!(
            "{name}: zstd keeps {:.0}% of {} bytes",
            100.0 * compressed as f64 / bytes.len() as f64,
            bytes.len()
        );
    }
    Ok(())
}

fn syncs(folder: &Path) -> Result<f64, Box<dyn Error>> {
    let mut file = File::create(folder.join("sync"))?;
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < MEASURED / 5 {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Runs one conversation; returns the number of answers.
async fn talk(
    handle: RecorderHandle,
    caller: usize,
    end: Instant,
) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let prompt: String = (0..1500).map(|place| format!("instruction {} ", place * 7919 % 1009)).collect();
    let mut answers = 0;
    while Instant::now() < end {
        let question = format!("question {answers} of {caller}");
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": prompt},
            {"role": "user", "content": question},
        ]});
        let headers: Headers = [("x-clawrl-session", format!("{caller}"))].into_iter().collect();
        let request = NewRequest {
            user: UserId("u".to_owned()),
            endpoint: "/v1/chat/completions",
            headers,
            raw: Bytes::from(body.to_string()),
            body: Arc::new(ChatRequest::parse(&body)?),
            model: "m".to_owned(),
            sampling: json!({"temperature": 0.7}),
        };
        let admitted = handle.arrived(request).await?;
        handle.answered(admitted.request, answer(answers)).await?;
        answers += 1;
    }
    Ok(answers)
}

fn answer(seed: u32) -> NewAnswer {
    let (prompt_ids, logprobs) = tokens(seed);
    let choice = NewChoice {
        text: "an answer of some two hundred tokens ".repeat(25),
        finish_reason: "stop".to_owned(),
        sampled_ids: prompt_ids[..TOKENS].to_vec(),
        logprobs: logprobs[..TOKENS].to_vec(),
        versions: vec![VersionSegment { first: 0, version: 1 }],
        exact: Exactness::Exact,
        ..NewChoice::default()
    };
    NewAnswer { choices: vec![choice], prompt_ids: prompt_ids.into(), ..NewAnswer::default() }
}

/// Ids of a vocabulary of 150,000, most of them small like those of words, and log-probabilities, from a linear congruential generator.
fn tokens(seed: u32) -> (Vec<u32>, Vec<f32>) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24)
    };
    (0..PROMPT).map(|_| ((150_000.0 * next().powi(4)) as u32, (next() + 1e-6).ln() as f32)).unzip()
}
