//! How far apart the pieces of an answer come while chat is learned from, against the same server whose answers nobody says anything of.
//!
//! One `clawrl serve` with a tiny policy, as a person starts it. `--streams` conversations ask again as soon as they have their answer, all
//! the time:
//!
//! - `idle`: nobody says anything of the answers, and nothing is learned.
//! - `learning`: every answer gets a thumb and a hint, so that one update follows the other and each version is put in use.
//!
//! By turns in the same run. A gap is the time between two events of a stream that say something, as the client reads them. An answer
//! counts when it has its status and `[DONE]`; anything else is an error.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::Failure;

/// The row of the design that this area answers to: of the 95th percentile.
const AT_MOST: f64 = 3.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Conversations at a time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,
    /// Seconds of a side.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u32).range(2..=512))]
    tokens: u32,
    /// Samples with which an update begins.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    train_every: u32,
    /// What is learned from.
    #[arg(long, default_value = "combined")]
    objective: String,
}

#[derive(Debug, Serialize)]
struct Row {
    round: u32,
    side: &'static str,
    streams: u32,
    gap_p50_ms: f64,
    gap_p95_ms: f64,
    gap_p99_ms: f64,
    answers: u64,
    errors: u64,
    versions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Idle,
    Learning,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Learning => "learning",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(arguments, folder.path())?;
    let mut measured = Vec::new();
    for round in 0..=arguments.rounds {
        for side in [Side::Idle, Side::Learning] {
            let row = measure(arguments, &served, side, round)?;
            if round > 0 {
                measured.push(row);
            }
        }
    }
    drop(served);
    rows::append(out, "chat-learning", &measured)?;
    Ok(told(&measured))
}

fn measure(arguments: &Arguments, served: &Served, side: Side, round: u32) -> Result<Row, Failure> {
    served.settle()?;
    let version = served.version()?;
    let is_over = AtomicBool::new(false);
    // Whether an update has little to take: what comes faster than it is trained would only wait.
    let is_hungry = AtomicBool::new(side == Side::Learning);
    let errors = AtomicU64::new(0);
    let answers = AtomicU64::new(0);
    let gaps: Vec<f64> = thread::scope(|scope| {
        let streams: Vec<_> = (0..arguments.streams)
            .map(|stream| {
                let (is_over, is_hungry) = (&is_over, &is_hungry);
                let (errors, answers) = (&errors, &answers);
                scope.spawn(move || {
                    let mut gaps = Vec::new();
                    let mut number = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let user = format!("{} {round} {stream} {number}", side.name());
                        match served.answer(&user, arguments.tokens, &mut gaps) {
                            Ok(turn) if is_hungry.load(Ordering::Relaxed) => {
                                let rating = if number.is_multiple_of(2) { "up" } else { "down" };
                                let said = json!({"turn": turn, "rating": rating, "text": "write a word"});
                                if served.ask("POST", "/v1/feedback", &said).is_err() {
                                    errors.fetch_add(1, Ordering::Relaxed);
                                }
                                answers.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(_) => drop(answers.fetch_add(1, Ordering::Relaxed)),
                            Err(_) => drop(errors.fetch_add(1, Ordering::Relaxed)),
                        }
                        number += 1;
                    }
                    gaps
                })
            })
            .collect();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(arguments.seconds) {
            // Whatever a gate or a guard thinks of so odd a teacher, learning is to go on.
            if let Ok(now) = served.ask("POST", "/v1/policy/resume", &Value::Null) {
                let waiting = now["waiting"].as_u64().unwrap_or_default();
                let is_little = waiting < 2 * u64::from(arguments.train_every);
                is_hungry.store(side == Side::Learning && is_little, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(100)); // timer: a side's length
        }
        is_over.store(true, Ordering::Relaxed);
        streams.into_iter().flat_map(|stream| stream.join().unwrap_or_default()).collect()
    });
    let versions = served.version()? - version;
    let gaps = Sample::new(gaps);
    Ok(Row {
        round,
        side: side.name(),
        streams: arguments.streams,
        gap_p50_ms: gaps.median(),
        gap_p95_ms: gaps.quantile(0.95),
        gap_p99_ms: gaps.quantile(0.99),
        answers: answers.into_inner(),
        errors: errors.into_inner(),
        versions,
    })
}

fn told(measured: &[Row]) -> String {
    let of = |side: Side| measured.iter().filter(move |row| row.side == side.name());
    let mut table = vec![
        ["side", "p50 gap ms", "p95 gap ms", "p99 gap ms", "answers", "errors", "versions"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for side in [Side::Idle, Side::Learning] {
        let sample = |figure: fn(&Row) -> f64| Sample::new(of(side).map(figure).collect()).summary();
        let sum = |figure: fn(&Row) -> u64| of(side).map(figure).sum::<u64>().to_string();
        table.push(vec![
            side.name().to_owned(),
            sample(|row| row.gap_p50_ms),
            sample(|row| row.gap_p95_ms),
            sample(|row| row.gap_p99_ms),
            sum(|row| row.answers),
            sum(|row| row.errors),
            sum(|row| row.versions),
        ]);
    }
    let pairs = of(Side::Learning).zip(of(Side::Idle));
    let ratios = Sample::new(pairs.map(|(learning, idle)| learning.gap_p95_ms / idle.gap_p95_ms).collect());
    let met = if ratios.median() <= AT_MOST { "met" } else { "missed" };
    let line =
        format!("p95 while learning / idle: {} x; target at most {AT_MOST} x: {met}", ratios.summary());
    format!("{}\n{line}\n", render(&table))
}

/// `clawrl serve`, and its key.
struct Served {
    child: Child,
    address: String,
    key: String,
}

impl Served {
    fn start(arguments: &Arguments, folder: &Path) -> Result<Self, Failure> {
        let program: PathBuf = std::env::current_exe()?.with_file_name("clawrl");
        let suite = fs::canonicalize("tasks/terminal-basics")?;
        let made = Command::new(&program)
            .current_dir(folder)
            .args(["policy", "init", "--preset", "tiny", "--out", "policy"])
            .arg(suite)
            .stderr(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(format!("no policy was made: {made}").into());
        }
        let chat = format!(
            "format: 1\nobjective: {}\ntrain_every_turns: {}\ngate: {{ max_kl: 10, max_reference_kl: 100 }}\n",
            arguments.objective, arguments.train_every
        );
        fs::write(folder.join("chat.yaml"), chat)?;
        let mut child = Command::new(&program)
            .current_dir(folder)
            .args(["serve", "policy", "--learn", "chat.yaml", "--listen", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line)?;
        let address =
            told["base_url"].as_str().and_then(|url| url.strip_prefix("http://")?.strip_suffix("/v1"));
        let address = address.ok_or("no address")?.to_owned();
        let keys = fs::read_to_string(folder.join("results/chat/keys"))?;
        let key = keys.lines().find_map(|line| line.strip_prefix("me ")).ok_or("no key")?.to_owned();
        Ok(Self { child, address, key })
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<BufReader<TcpStream>, Failure> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (address, key, length) = (&self.address, &self.key, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status)?;
        if status.split(' ').nth(1) == Some("200") { Ok(reader) } else { Err(status.into()) }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let mut answer = String::new();
        self.request(method, path, body)?.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no body")?;
        Ok(serde_json::from_str(body)?)
    }

    fn version(&self) -> Result<u64, Failure> {
        Ok(self.ask("GET", "/v1/policy", &Value::Null)?["version"].as_u64().ok_or("no version")?)
    }

    /// Until too few samples wait for another update, and none is being made.
    fn settle(&self) -> Result<(), Failure> {
        let (mut last, mut same) = (None, 0);
        while same < 5 {
            // Whoever is paused learns nothing of what waits.
            let now = self.ask("POST", "/v1/policy/resume", &Value::Null)?;
            let (waiting, every) = (now["waiting"].as_u64(), now["every_turns"].as_u64());
            let is_still = waiting < every && last == Some(now["version"].clone());
            same = if is_still { same + 1 } else { 0 };
            last = Some(now["version"].clone());
            thread::sleep(Duration::from_millis(50)); // timer: between two looks
        }
        Ok(())
    }

    /// An answer as it comes: the number of its turn, and the gaps between its pieces in milliseconds.
    fn answer(&self, user: &str, tokens: u32, gaps: &mut Vec<f64>) -> Result<u64, Failure> {
        let message = json!({"role": "user", "content": "Write stone into out.txt."});
        let body = json!({"messages": [message], "user": user, "stream": true, "max_tokens": tokens});
        let mut reader = self.request("POST", "/v1/chat/completions", &body)?;
        let (mut line, mut turn, mut last, mut done) = (String::new(), None, None, false);
        while reader.read_line(&mut line)? > 0 {
            let now = Instant::now();
            if let Some(event) = line.trim_end().strip_prefix("data: ") {
                if event == "[DONE]" {
                    done = true;
                } else if event.contains("\"error\"") {
                    return Err(event.to_owned().into());
                } else if event.contains("\"content\":")
                    && let Some(last) = last.replace(now)
                {
                    gaps.push((now - last).as_secs_f64() * 1e3);
                }
                // Also of an answer in which nothing can be read.
                let id = event.split("chatcmpl-").nth(1).and_then(|rest| rest.split('"').next());
                turn = id.and_then(|id| id.parse().ok()).or(turn);
            }
            line.clear();
        }
        if done {
            turn.ok_or_else(|| "an answer without a turn".into())
        } else {
            Err("an answer was cut".into())
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
