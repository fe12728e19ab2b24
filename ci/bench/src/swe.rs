//! A step and a reset of a software engineering environment in a container, against an engine's own.
//!
//! - step: `echo` through the environment of one episode, in its persistent shell; against `docker exec CONTAINER bash -c`
//!   in a container of the same image, a program and a shell for each step, as agents of SWE-bench run theirs.
//! - reset: a lease and a reset, from nothing to a repository with its base commit, cold and with a container made ahead;
//!   against `docker run` of a program that does nothing, which has no repository yet.
//!
//! All containers are of one image and of one engine, with no network. Sides take turns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_container::{ContainerBackend, ContainerConfig, DEFAULT_SOCKET, probe_engine};
use clawrl_core::{
    Determinism, EnvProvider, EnvSpec, ImageSource, ImageSpec, LogParser, RunId, SandboxKind, SweSpec,
    TaskSpec, TestNames, TestScore, TestSpec, ToolCall, WorkspaceSpec,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use clawrl_swe::{SweConfig, SweProvider};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Builder;

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{Failure, ctx, lease_of, run_name, task_of};

/// The row of the design that this area answers to.
const STEP_AT_LEAST: f64 = 20.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Steps of our side in a round; the engine's are a tenth.
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Resets of each side in a round.
    #[arg(long, default_value_t = 6)]
    resets: u32,
    /// Image with bash and git, whose working folder is empty; it is never pulled. `ci/setup.sh image import` makes one.
    #[arg(long, default_value = "clawrl-base:1")]
    image: String,
    /// Where the engine listens, as in DOCKER_HOST.
    #[arg(long, env = "DOCKER_HOST", default_value = DEFAULT_SOCKET)]
    engine: String,
    /// Certificates for an engine at tcp://, as in DOCKER_CERT_PATH.
    #[arg(long, env = "DOCKER_CERT_PATH")]
    certificates: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Step,
    DockerExec,
    ColdReset,
    WarmReset,
    DockerRun,
}

impl Side {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Step, "step"),
        (Self::DockerExec, "docker exec"),
        (Self::ColdReset, "reset, cold"),
        (Self::WarmReset, "reset, warm"),
        (Self::DockerRun, "docker run"),
    ];
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    round: u32,
    count: usize,
    p50_us: f64,
    p95_us: f64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    // Before any runtime: death signals follow the thread that starts it.
    let spawner = Spawner::start()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        let client = SpawnerClient::attach(spawner)?;
        let engine = probe_engine(&arguments.engine, arguments.certificates.as_deref()).await?;
        let run = RunId::new(&run_name("swe")).ok_or("an area is named by letters and dashes")?;
        let config =
            ContainerConfig { engines: vec![engine], run, determinism: Determinism::default(), images: None };
        let backend: Arc<dyn SandboxBackend> = Arc::new(ContainerBackend::new(client, config)?);
        let spec = spec(&arguments.image);
        let provider = SweProvider::new(SweConfig {
            backends: HashMap::from([(SandboxKind::Container, backend)]),
            // Nothing is made while something else is timed.
            marks: WarmMarks { low: 0, high: 0 },
            expected: vec![(spec.clone(), u32::MAX)],
            determinism: Determinism::default(),
            cast_bytes: 0,
        });
        let task = task_of("swe", EnvSpec::Swe(Box::new(spec)));
        let measured = rounds(arguments, &provider, &task).await;
        let left = provider.shutdown().await.leftovers;
        if left.is_empty() { measured } else { Err(format!("left behind: {}", left.join("; ")).into()) }
    })?;
    rows::append(out, "swe", &rows)?;
    Ok(table(arguments, &rows))
}

async fn rounds(
    arguments: &Arguments,
    provider: &SweProvider,
    task: &Arc<TaskSpec>,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        let steps = steps(provider, task, arguments.steps).await?;
        let execs = docker_execs(arguments, arguments.steps.div_ceil(10))?;
        let cold = resets(provider, task, arguments.resets, false).await?;
        let warm = resets(provider, task, arguments.resets, true).await?;
        let runs = docker_runs(arguments, arguments.resets)?;
        if round > 0 {
            for ((side, _), times) in Side::ALL.into_iter().zip([steps, execs, cold, warm, runs]) {
                let micros = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
                let sample = Sample::new(micros);
                let (p50_us, p95_us) = (sample.median(), sample.quantile(0.95));
                rows.push(Row { side, round, count: times.len(), p50_us, p95_us });
            }
        }
    }
    Ok(rows)
}

/// A repository of an empty folder, whose tests nobody runs here.
fn spec(image: &str) -> SweSpec {
    let source = ImageSource::Name(image.to_owned());
    SweSpec {
        workspace: WorkspaceSpec {
            sandbox: SandboxKind::Container,
            image: Some(ImageSpec { source, workdir: None, user: None }),
            ..WorkspaceSpec::default()
        },
        base_commit: None,
        apply: Vec::new(),
        setup: Vec::new(),
        activate: None,
        tests: TestSpec {
            run: "true".to_owned(),
            parser: LogParser::Pytest,
            files: Vec::new(),
            patch: None,
            fail_to_pass: TestNames::Inline(vec!["none".to_owned()]),
            pass_to_pass: TestNames::Inline(Vec::new()),
            protected: Vec::new(),
            timeout: Duration::from_secs(60),
            score: TestScore::Resolved,
        },
        observation_chars: 4_000,
    }
}

async fn steps(provider: &SweProvider, task: &Arc<TaskSpec>, count: u32) -> Result<Vec<Duration>, Failure> {
    let mut env = provider.lease(lease_of(task)).await?;
    env.reset(ctx(0)).await?;
    let calls = [ToolCall::new("bash", json!({ "command": "echo hello" }))];
    let mut times = Vec::new();
    for number in 1..=count {
        let begin = Instant::now();
        let result = env.step(&calls, ctx(number)).await?;
        times.push(begin.elapsed());
        let seen = result.observation.joined_text();
        if seen != "hello\n[exit 0]" {
            return Err(format!("a step came to {seen:?}").into());
        }
    }
    env.close().await;
    Ok(times)
}

async fn resets(
    provider: &SweProvider,
    task: &Arc<TaskSpec>,
    count: u32,
    warm: bool,
) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    for _ in 0..count {
        if warm {
            provider.warm_up(1).await?;
        }
        let begin = Instant::now();
        let mut env = provider.lease(lease_of(task)).await?;
        env.reset(ctx(0)).await?;
        times.push(begin.elapsed());
        env.close().await;
    }
    Ok(times)
}

fn docker_execs(arguments: &Arguments, count: u32) -> Result<Vec<Duration>, Failure> {
    let run = ["run", "--detach", "--rm", "--network=none", "--pull=never", &arguments.image, "sleep", "600"];
    let container = docker(arguments, &run)?;
    let container = container.trim();
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let seen = docker(arguments, &["exec", container, "bash", "-c", "echo hello"])?;
        times.push(begin.elapsed());
        if seen != "hello\n" {
            return Err(format!("docker exec came to {seen:?}").into());
        }
    }
    docker(arguments, &["kill", container])?;
    Ok(times)
}

fn docker_runs(arguments: &Arguments, count: u32) -> Result<Vec<Duration>, Failure> {
    let run = ["run", "--rm", "--network=none", "--pull=never", &arguments.image, "true"];
    (0..count)
        .map(|_| {
            let begin = Instant::now();
            docker(arguments, &run)?;
            Ok(begin.elapsed())
        })
        .collect()
}

fn docker(arguments: &Arguments, words: &[&str]) -> Result<String, Failure> {
    let output = Command::new("docker")
        .args(words)
        .env("DOCKER_HOST", &arguments.engine)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("docker: {error}; this area measures against it"))?;
    if !output.status.success() {
        return Err(format!("docker {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let sample = |side: Side, value: fn(&Row) -> f64| {
        Sample::new(rows.iter().filter(|row| row.side == side).map(value).collect())
    };
    let p50 = |side: Side| sample(side, |row| row.p50_us);
    let mut lines = vec![["side", "p50", "p95"].map(str::to_owned).to_vec()];
    for (side, label) in Side::ALL {
        lines.push(vec![label.to_owned(), p50(side).summary(), sample(side, |row| row.p95_us).summary()]);
    }
    let step = p50(Side::DockerExec).median() / p50(Side::Step).median();
    let reset = |side: Side| p50(side).median() / p50(Side::DockerRun).median();
    format!(
        "microseconds, median (least-greatest) of {} rounds, one at a time\n\n{}\nstep: {step:.1} x as fast as docker exec, \
         target at least {STEP_AT_LEAST} x: {}\nreset with a repository: {:.2} x the time of docker run cold, {:.2} x warm",
        arguments.rounds,
        render(&lines),
        if step >= STEP_AT_LEAST { "met" } else { "missed" },
        reset(Side::ColdReset),
        reset(Side::WarmReset),
    )
}
