//! The list of attempts that the viewer begins with: failures first, and attempts that end alike in the order of slots.

use clawrl_core::RunId;
use clawrl_record::{AttemptSummary, Ending, PhaseMicros, Run};
use serde::Serialize;

use crate::error::ReportError;
use crate::gather::Gathered;
use crate::kind::Kind;

#[derive(Debug, Serialize)]
struct Index<'a> {
    run: &'a RunId,
    kinds: [&'static str; 4],
    tasks: Vec<&'a str>,
    /// Chunks that the page has; of later ones the attempts were left out.
    chunks: usize,
    /// Chunks whose recordings and thumbnails are in the page.
    cast_chunks: usize,
    /// Path from the page to the run's folder.
    run_folder: &'a str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    attempt: String,
    task: u32,
    kind: u8,
    score: Option<f64>,
    turns: u32,
    us: u64,
    chunk: usize,
    place: usize,
    cast: bool,
}

/// Kinds by the number that rows have.
const KINDS: [Kind; 4] = [Kind::Passed, Kind::Failed, Kind::Faulted, Kind::Cancelled];

/// The list as a block.
pub(super) fn block(run: &Run, gathered: &Gathered<'_>) -> Result<String, ReportError> {
    let plan = run.plan();
    let mut rows: Vec<((u8, u32, u32), Row)> = Vec::with_capacity(gathered.attempts.len());
    for (chunk, range) in gathered.chunks.iter().enumerate() {
        for (place, at) in range.clone().enumerate() {
            let summary = gathered.attempts[at];
            let slot = summary.attempt.slot.0;
            let task = plan.slots.get(slot as usize).map_or(0, |spec| spec.task.0);
            let row = row(summary, task, (chunk, place), gathered.blocks.has_cast(at));
            rows.push(((rank(summary), slot, summary.attempt.number), row));
        }
    }
    rows.sort_by_key(|(key, _)| *key);
    let index = Index {
        run: &plan.run,
        kinds: KINDS.map(Kind::word),
        tasks: plan.tasks.iter().map(|task| task.id.0.as_str()).collect(),
        chunks: gathered.blocks.details().len(),
        cast_chunks: gathered.blocks.extras().len(),
        run_folder: &gathered.run_folder,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    };
    crate::block::compressed("the list of attempts", &index)
}

/// Rank of an attempt in the list: attempts superseded by a retry come after those that closed their slot.
fn rank(summary: &AttemptSummary) -> u8 {
    match Kind::of(summary) {
        Kind::Faulted if summary.closes_slot => 0,
        Kind::Failed => 1,
        Kind::Faulted => 2,
        Kind::Cancelled => 3,
        Kind::Passed => 4,
    }
}

fn row(summary: &AttemptSummary, task: u32, (chunk, place): (usize, usize), cast: bool) -> Row {
    let PhaseMicros { lease, setup, policy, step, grade, close } = summary.times_us;
    let kind = Kind::of(summary);
    Row {
        attempt: summary.attempt.to_string(),
        task,
        kind: KINDS.iter().position(|one| *one == kind).and_then(|at| u8::try_from(at).ok()).unwrap_or(0),
        score: match summary.ending {
            Ending::Finished { score, .. } => Some(score),
            Ending::Faulted { .. } | Ending::Cancelled(_) => None,
        },
        turns: summary.turns,
        us: [lease, setup, policy, step, grade, close].iter().fold(0, |sum: u64, us| sum.saturating_add(*us)),
        chunk,
        place,
        cast,
    }
}
