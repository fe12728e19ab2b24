//! A limit in US dollars, beyond which a run starts no further attempt.
//!
//! I1. An attempt counts when its record is stored, with all its replies and those of judges. I2. Running attempts finish after
//! the limit is reached, so the cost may exceed it; no other attempts are started, retries included. I3. A resumed run counts its
//! earlier cost. I4. A limit is refused if the policy or a judge has no prices.
//!
//! Units: billionths of US dollars; in arguments and messages, US dollars.
//! Cancellation: a dropped call leaves its stored record.

use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{
    AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, PolicySpec, RunPlan, SinkError, UsageTotal,
};
use clawrl_record::Run;
use clawrl_scheduler::{Demand, GroupDemand};
use tokio::sync::watch;

use crate::error::RuntimeError;

/// Stores records in another sink, and closes the demand at the limit.
pub struct CostLimit {
    kept: Arc<dyn EpisodeSink>,
    most: f64,
    demand: watch::Sender<Demand>,
    progress: Mutex<Progress>,
}

struct Progress {
    nano_usd: u64,
    /// Number of open slots.
    open: usize,
}

impl CostLimit {
    /// The limit of a run with this many open slots and this cost so far.
    pub fn new(
        kept: Arc<dyn EpisodeSink>,
        most_usd: f64,
        spent: u64,
        open: usize,
    ) -> (Self, watch::Receiver<Demand>) {
        let all = Demand { groups: GroupDemand::First(u32::MAX), closed: is_used_up(spent, most_usd) };
        let (demand, receiver) = watch::channel(all);
        let progress = Mutex::new(Progress { nano_usd: spent, open });
        (Self { kept, most: most_usd, demand, progress }, receiver)
    }

    fn note(&self, closes_slot: bool, nano_usd: u64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.nano_usd = progress.nano_usd.saturating_add(nano_usd);
        progress.open = progress.open.saturating_sub(usize::from(closes_slot));
        // A run without open slots is complete, regardless of its cost.
        if progress.open > 0 && is_used_up(progress.nano_usd, self.most) {
            self.demand.send_modify(|demand| demand.closed = true);
        }
    }
}

/// Whether the cost has reached the limit.
pub fn is_used_up(nano_usd: u64, most_usd: f64) -> bool {
    nano_usd as f64 / 1e9 >= most_usd
}

impl EpisodeSink for CostLimit {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        self.kept.leased(lease)
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            let (closes_slot, cost) = (record.closes_slot, cost_of(&record));
            self.kept.resolved(record).await?;
            self.note(closes_slot, cost);
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}

/// The cost of an attempt, judges included, billionths of US dollars.
pub fn cost_of(record: &AttemptRecord) -> u64 {
    let replies = UsageTotal::of(record.trajectory.turns.iter().filter_map(|turn| turn.usage.as_ref()));
    let judge = record.outcome.grade().and_then(|grade| grade.judge_usage);
    [replies, judge]
        .into_iter()
        .flatten()
        .filter_map(|usage| usage.cost_nano_usd)
        .fold(0, u64::saturating_add)
}

/// The cost of a run, judges included, billionths of US dollars.
pub fn spent(run: &Run) -> u64 {
    let usages = run.attempts().flat_map(|attempt| [attempt.usage.as_ref(), attempt.judge_usage.as_deref()]);
    usages.flatten().filter_map(|usage| usage.cost_nano_usd).fold(0, u64::saturating_add)
}

/// Refuses a limit for a run whose policy or judge has no prices (I4). `whose`: the owner of the limit, for the message.
///
/// # Errors
/// No prices are known; the message shows how to set them.
pub fn refuse_unpriced(whose: &str, plan: &RunPlan) -> Result<(), RuntimeError> {
    let (message, help) = match (plan.policy.speaker(), plan.judge.as_deref()) {
        (PolicySpec::Remote(remote), _) if remote.prices.is_none() => (
            format!("{whose} has a limit in US dollars, and its policy has no prices"),
            "write `prices:` into the policy file, and name it as remote:FILE",
        ),
        (PolicySpec::Agent(_), _) => (
            format!(
                "{whose} has a limit in US dollars, and what the agent program asks of models is not known"
            ),
            "give the agent a model with prices: `model:` in its file",
        ),
        (_, Some(judge)) if judge.prices.is_none() => (
            format!("{whose} has a limit in US dollars, and its judge has no prices"),
            "write `prices:` into the policy file of the judge",
        ),
        _ => return Ok(()),
    };
    Err(RuntimeError::refused(message).with_help(help))
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, Boundary, Epoch, Fault, Outcome, PhaseTimes, SlotId, Trajectory};

    use super::*;
    use crate::memory_sink::MemorySink;

    /// An attempt of one turn with this cost.
    fn record(slot: u32, closes_slot: bool, nano_usd: u64) -> AttemptRecord {
        let turn = serde_json::json!({
            "reply": { "role": "assistant", "parts": [] },
            "calls": [],
            "observation": { "parts": [] },
            "usage": {
                "source": "reported", "input_tokens": 1, "cached_tokens": 0, "output_tokens": 1, "cost_nano_usd": nano_usd,
                "retries": 0, "notes": [],
            },
            "policy_time": { "secs": 0, "nanos": 0 }, "step_time": { "secs": 0, "nanos": 0 },
        });
        let trajectory: Trajectory = serde_json::from_value(serde_json::json!({
            "prompt": [], "reset": { "parts": [] }, "turns": [turn],
        }))
        .unwrap();
        AttemptRecord {
            attempt: AttemptId { slot: SlotId(slot), number: 0 },
            epoch: Epoch(1),
            closes_slot,
            outcome: Outcome::Faulted(Fault::permanent(Boundary::Env, "lost", "it is gone")),
            times: PhaseTimes::default(),
            trajectory,
        }
    }

    fn limit(most_usd: f64, spent: u64, open: usize) -> (CostLimit, watch::Receiver<Demand>) {
        CostLimit::new(Arc::new(MemorySink::default()), most_usd, spent, open)
    }

    #[tokio::test]
    async fn nothing_more_is_wanted_once_the_limit_is_spent() {
        let (sink, demand) = limit(1.0, 0, 3);
        sink.resolved(record(0, true, 600_000_000)).await.unwrap();
        assert!(!demand.borrow().closed);
        // A retried attempt counts as well.
        sink.resolved(record(1, false, 400_000_000)).await.unwrap();
        assert!(demand.borrow().closed);
        assert_eq!(demand.borrow().groups, GroupDemand::First(u32::MAX));
    }

    #[tokio::test]
    async fn the_last_slot_ends_a_run_whole() {
        let (sink, demand) = limit(1.0, 0, 1);
        sink.resolved(record(0, true, 2_000_000_000)).await.unwrap();
        assert!(!demand.borrow().closed);
    }

    #[test]
    fn what_was_spent_before_counts() {
        let check = |spent, closed| assert_eq!(limit(0.5, spent, 2).1.borrow().closed, closed, "{spent}");
        check(499_999_999, false);
        check(500_000_000, true);
    }
}
