//! Slots of GUI environments, each of which makes one attempt after another.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, CancelToken, Check, CheckSpec, Env, EnvProvider as _, EnvSpec, Fault, GuiSpec, PageCheck,
    SandboxKind, SiteFolder, SiteSpec, StepCtx, TaskSpec, ToolCall,
};
use clawrl_gui::{BrowserKind, BrowserPrograms, BrowserSource, GuiConfig, GuiProvider, folder_hash};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use serde_json::json;
use tokio::task::JoinSet;

use super::tally::{Pace, Seen, Tally};
use super::watch::{Most, watched};
use super::{AREA, PREPARE};
use crate::terminals::{Failure, lease_of, task_of, with_backend};

/// A slot that had so many faults in a row gives up: it would have them for ever.
const MOST_FAULTS: u32 = 10;

/// Runs the slots with sandboxes of their own.
pub(super) fn measure(
    html: &Path,
    programs: &BrowserPrograms,
    slots: u32,
    pace: Pace,
    owner: &str,
) -> Result<(Seen, Most), Failure> {
    let spec = spec(html)?;
    with_backend(AREA, async |_, backend| {
        let backend: Arc<dyn SandboxBackend> = Arc::new(backend.clone());
        let kind = BrowserKind { sandbox: spec.sandbox, memory_mib: spec.memory_mib };
        let provider = Arc::new(GuiProvider::new(GuiConfig {
            backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
            source: BrowserSource::Here(programs.clone()),
            // Nothing is made while something else is timed.
            marks: WarmMarks { low: 0, high: 0 },
            expected: vec![(kind, u32::MAX)],
            judge: None,
        }));
        let task = task(spec);
        let (seen, most) = watched(Some(owner), round(&provider, &task, slots, pace)).await;
        let left = provider.shutdown().await.leftovers;
        Ok((Seen { left, ..seen? }, most))
    })
}

async fn round(
    provider: &Arc<GuiProvider>,
    task: &Arc<TaskSpec>,
    slots: u32,
    pace: Pace,
) -> Result<Seen, Failure> {
    let mut before = Tally::default();
    let begun = Instant::now();
    // What was not made now is made by a lease.
    if let Err(fault) = provider.warm_up(slots).await {
        before.fault(fault);
    }
    let start_s = begun.elapsed().as_secs_f64();
    before.add(at_once(provider, task, slots, Pace { attempts: 1, ..pace }).await?);
    let begun = Instant::now();
    let mut tally = at_once(provider, task, slots, pace).await?;
    let lasted_s = begun.elapsed().as_secs_f64();
    // Of what does not count only the faults do.
    tally.add(Tally { faults: before.faults, ..Tally::default() });
    Ok(Seen { tally, start_s, lasted_s, left: Vec::new() })
}

async fn at_once(
    provider: &Arc<GuiProvider>,
    task: &Arc<TaskSpec>,
    slots: u32,
    pace: Pace,
) -> Result<Tally, Failure> {
    let mut at_work = JoinSet::new();
    for _ in 0..slots {
        let (provider, task) = (Arc::clone(provider), Arc::clone(task));
        at_work.spawn(async move { slot(&provider, &task, pace).await });
    }
    let mut all = Tally::default();
    while let Some(done) = at_work.join_next().await {
        all.add(done?);
    }
    Ok(all)
}

/// One attempt after another. After a fault, what the attempt had left to do is done in a new lease.
async fn slot(provider: &GuiProvider, task: &Arc<TaskSpec>, pace: Pace) -> Tally {
    let mut tally = Tally::default();
    let mut faults = 0;
    for _ in 0..pace.attempts {
        let until = tally.steps.len() + pace.steps as usize;
        while let Err(fault) = attempt(provider, task, until, &mut tally).await {
            tally.fault(fault);
            faults += 1;
            if faults >= MOST_FAULTS {
                return tally;
            }
        }
        faults = 0;
    }
    tally
}

/// Leases, resets, steps until the slot has done so many, grades and closes.
async fn attempt(
    provider: &GuiProvider,
    task: &Arc<TaskSpec>,
    until: usize,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let mut env = provider.lease(lease_of(task)).await?;
    let worked = work(env.as_mut(), task, begun, until, tally).await;
    let left = env.close().await.leftovers;
    worked?;
    if left.is_empty() {
        return Ok(());
    }
    Err(Fault::transient(Boundary::Env, "left-behind", left.join("; ")))
}

async fn work(
    env: &mut dyn Env,
    task: &TaskSpec,
    begun: Instant,
    until: usize,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let limits = task.timeouts;
    let seen = env.reset(within(0, limits.setup)).await?.joined_text();
    let reset_s = begun.elapsed().as_secs_f64();
    must_show_the_box(&seen)?;
    tally.resets.push(reset_s);
    let calls = [ToolCall::new("act", json!({ "line": "click 1" }))];
    let mut seq = 0;
    while tally.steps.len() < until {
        seq += 1;
        let begun = Instant::now();
        let seen = env.step(&calls, within(seq, limits.step)).await?.observation.joined_text();
        let step_s = begun.elapsed().as_secs_f64();
        must_show_the_box(&seen)?;
        tally.steps.push(step_s);
    }
    env.grade(within(seq + 1, limits.grade)).await.map(drop)
}

/// A step that came to anything else is no step.
fn must_show_the_box(seen: &str) -> Result<(), Fault> {
    if seen.contains("[1] checkbox") && !seen.contains("error:") {
        return Ok(());
    }
    let message = format!("the page came to {seen:?}");
    Err(Fault::transient(Boundary::Env, "wrong-observation", message))
}

/// As the scheduler bounds it.
fn within(seq: u32, limit: Duration) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + limit, cancel: CancelToken::new() }
}

/// As the importer's tasks are.
fn task(spec: GuiSpec) -> Arc<TaskSpec> {
    let expression = "WOB_RAW_REWARD_GLOBAL".to_owned();
    let check = Check::Page(PageCheck::Reward { expression, lowest: -1.0, highest: 1.0 });
    let check = CheckSpec { label: "the page's own reward".to_owned(), weight: 1.0, check };
    let mut task = TaskSpec::clone(&task_of("gui", EnvSpec::Gui(Box::new(spec))));
    task.checks.push(check);
    Arc::new(task)
}

fn spec(html: &Path) -> Result<GuiSpec, Failure> {
    let folder = SiteFolder { path: html.to_owned(), sha256: folder_hash(html)? };
    Ok(GuiSpec {
        sites: vec![SiteSpec {
            name: "miniwob".to_owned(),
            folder: Some(folder),
            files: Vec::new(),
            routes: Vec::new(),
        }],
        start: "http://miniwob.localhost/miniwob/click-checkboxes.html".to_owned(),
        prepare: vec![PREPARE.to_owned()],
        hidden: ["#reward-display", "#click-canvas", "#sync-task-cover"].map(str::to_owned).to_vec(),
        viewport: (500, 320),
        ..GuiSpec::default()
    })
}
