//! Statistics of a run.
//!
//! I1. Faults count in no denominator (I2 of the architecture); they are listed separately, as are open slots.
//! I2. slots = finished + faulted + open, in every row. I3. A statistic without data is `None`, never 0.
//! I4. Everything follows from plan, journal and trajectories; nothing from the clock or the reporting machine.
//!
//! Units: rates and scores in [0, 1], `_us` microseconds, `_ms` milliseconds.

use std::collections::BTreeMap;

use clawrl_core::{RunId, TaskIndex, UsageTotal};
use clawrl_record::{Clusters, Ending, FaultCount, Rate, Run, SlotState};
use serde::Serialize;

use crate::at_k::{AtK, at_k};
use crate::gather::TurnTimes;
use crate::histogram::Histogram;

/// Texts that the caller provides for the report.
#[derive(Debug, Clone)]
pub struct Heading {
    /// Description of the policy.
    pub policy: String,
    /// Description of the run's state: running, or how it ended.
    pub state: String,
}

/// Figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStats {
    /// The run.
    pub run: RunId,
    /// Description of the policy.
    pub policy: String,
    /// Description of the run's state: running, or how it ended.
    pub state: String,
    /// When it began, milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// Time under way, pauses between sessions left out.
    pub wall_ms: u64,
    /// Number of resumes.
    pub resumes: u32,
    /// Notes to read first: a torn tail, limits that could not be set.
    pub warnings: Vec<String>,
    /// Everything.
    pub total: Row,
    /// Success in k tries, over all tasks.
    pub at_k: Vec<AtK>,
    /// Per suite, in the plan's order, and per family in it, by name.
    pub suites: Vec<SuiteStats>,
    /// Faulted attempts by kind, the most frequent first.
    pub faults: Vec<FaultCount>,
    /// Time of finished episodes by phase.
    pub phases: Vec<PhaseStats>,
    /// Per task, in the plan's order.
    pub tasks: Vec<TaskStats>,
    /// Per group, in the plan's order; empty where every group has one member.
    pub groups: Vec<GroupStats>,
}

/// Figures of some slots.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Number of slots.
    pub slots: u32,
    /// Slots closed by an episode that was graded: the denominator of everything below.
    pub finished: u32,
    /// Episodes that passed every check.
    pub passed: u32,
    /// `passed / finished` with its interval.
    pub rate: Option<Rate>,
    /// Mean score of finished episodes.
    pub mean_score: Option<f64>,
    /// Mean reward of finished episodes.
    pub mean_reward: Option<f64>,
    /// Slots closed by a fault.
    pub faulted: u32,
    /// Slots that are not closed.
    pub open: u32,
    /// Attempts that resolved.
    pub attempts: u32,
    /// Attempts among them that ended in a fault, including retried ones.
    pub faulted_attempts: u32,
    /// Cancelled attempts among them.
    pub cancelled_attempts: u32,
    /// Finished attempts that were later discarded because a learner returned to a checkpoint.
    pub superseded_attempts: u32,
    /// Attempts whose process died.
    pub lost_attempts: u32,
    /// Turns of all attempts that resolved.
    pub turns: u64,
    /// Usage of their replies, from policies that report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotal>,
    /// Usage of judges for the grades.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<UsageTotal>,
    /// Tokens that a policy sampled in them, and recorded one by one.
    pub sampled_tokens: u64,
}

/// A suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuiteStats {
    /// Name of the suite.
    pub suite: String,
    /// All of it.
    pub total: Row,
    /// Per family.
    pub families: BTreeMap<String, Row>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStats {
    /// Id of the task.
    pub task: String,
    /// Position of the task in the plan.
    #[serde(skip)]
    pub index: TaskIndex,
    /// Slots of the task.
    pub row: Row,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupStats {
    /// Number of the group in the plan.
    pub group: u32,
    /// Task of the group.
    pub task: String,
    /// Slots of the group.
    pub row: Row,
}

/// Statistics of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseStats {
    /// Name of the phase.
    pub phase: &'static str,
    /// Whether durations are per turn or per attempt.
    pub per: Per,
    /// The durations.
    pub durations: Histogram,
}

/// Unit of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A whole attempt.
    Attempt,
    /// Per turn.
    Turn,
}

impl RunStats {
    /// Statistics of a run and its gathered trajectories.
    pub(crate) fn new(run: &Run, heading: &Heading, turns: TurnTimes, sampled: &BTreeMap<u32, u64>) -> Self {
        let plan = run.plan();
        let untouched = SlotState::default();
        let slot = |at: usize| run.state().and_then(|state| state.slots().get(at)).unwrap_or(&untouched);
        let mut total = Tally::default();
        let mut suites: Vec<(Tally, BTreeMap<&str, Tally>)> = vec![Default::default(); plan.suites.len()];
        let mut tasks: Vec<Tally> = vec![Tally::default(); plan.tasks.len()];
        let mut groups: BTreeMap<u32, (u32, Tally)> = BTreeMap::new();
        for (at, spec) in plan.slots.iter().enumerate() {
            let tokens = sampled.get(&spec.id.0).copied().unwrap_or(0);
            let add = |tally: &mut Tally| tally.add(spec.task.0, slot(at), tokens);
            add(&mut total);
            if let Some((suite, families)) = suites.get_mut(spec.suite as usize) {
                add(suite);
                add(families.entry(plan.task_of(spec).family.as_str()).or_default());
            }
            if let Some(task) = tasks.get_mut(spec.task.0 as usize) {
                add(task);
            }
            add(&mut groups.entry(spec.group.0).or_insert_with(|| (spec.task.0, Tally::default())).1);
        }
        let summary = run.summary();
        let task_name = |task: u32| plan.tasks[task as usize].id.0.clone();
        let is_grouped = groups.values().any(|(_, tally)| tally.row.slots > 1);
        Self {
            run: plan.run.clone(),
            policy: heading.policy.clone(),
            state: heading.state.clone(),
            started_ms: summary.started_ms,
            wall_ms: summary.wall_ms,
            resumes: summary.resumes,
            warnings: warnings(run),
            at_k: at_k(&total.clusters.tries().collect::<Vec<_>>()),
            total: total.row(),
            suites: plan
                .suites
                .iter()
                .zip(suites)
                .map(|(suite, (all, families))| SuiteStats {
                    suite: suite.name.clone(),
                    total: all.row(),
                    families: families
                        .into_iter()
                        .map(|(name, tally)| (name.to_owned(), tally.row()))
                        .collect(),
                })
                .collect(),
            faults: summary.faults,
            phases: phases(run, turns),
            tasks: (0..)
                .zip(tasks)
                .filter(|(_, tally)| tally.row.slots > 0)
                .map(|(task, tally)| TaskStats {
                    task: task_name(task),
                    index: TaskIndex(task),
                    row: tally.row(),
                })
                .collect(),
            groups: groups
                .into_iter()
                .filter(|_| is_grouped)
                .map(|(group, (task, tally))| GroupStats { group, task: task_name(task), row: tally.row() })
                .collect(),
        }
    }
}

/// Sums on the way to a [`Row`].
#[derive(Debug, Clone, Default)]
struct Tally {
    row: Row,
    clusters: Clusters,
    score_sum: f64,
    reward_sum: f64,
}

impl Tally {
    fn add(&mut self, task: u32, slot: &SlotState, sampled_tokens: u64) {
        let row = &mut self.row;
        row.slots += 1;
        match slot.closing().map(|closing| &closing.ending) {
            Some(Ending::Finished { score, passed, reward, .. }) => {
                row.finished += 1;
                row.passed += u32::from(*passed);
                self.score_sum += score;
                self.reward_sum += reward;
                self.clusters.add(task, *passed);
            }
            Some(Ending::Faulted { .. }) => row.faulted += 1,
            Some(Ending::Cancelled(_)) | None => row.open += 1,
        }
        for attempt in &slot.attempts {
            row.attempts += 1;
            row.faulted_attempts += u32::from(attempt.faulted());
            row.cancelled_attempts += u32::from(matches!(attempt.ending, Ending::Cancelled(_)));
            row.superseded_attempts += u32::from(attempt.superseded());
            row.turns += u64::from(attempt.turns);
            if let Some(usage) = &attempt.usage {
                row.usage.get_or_insert_default().merge(usage);
            }
            if let Some(usage) = &attempt.judge_usage {
                row.judge_usage.get_or_insert_default().merge(usage);
            }
        }
        row.lost_attempts += slot.lost();
        row.sampled_tokens += sampled_tokens;
    }

    fn row(self) -> Row {
        let mut row = self.row;
        let mean = |sum: f64| (row.finished > 0).then(|| sum / f64::from(row.finished));
        (row.mean_score, row.mean_reward) = (mean(self.score_sum), mean(self.reward_sum));
        row.rate = self.clusters.rate();
        row
    }
}

fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.is_running() {
        warnings.push("the run is still running: these numbers are a snapshot".to_owned());
    }
    if let Some(tail) = run.torn_tail() {
        warnings.push(format!(
            "the last {} bytes of the journal are incomplete and ignored; `--resume` removes them",
            tail.bytes
        ));
    }
    // A run is reported even if its lock file is unreadable.
    let limits = run.lock_file().map(|lock| lock.limits_not_set).unwrap_or_default();
    warnings.extend(limits.iter().map(|limit| format!("not limited: {} ({})", limit.limit, limit.reason)));
    warnings
}

/// Durations of finished episodes that closed their slot.
fn phases(run: &Run, turns: TurnTimes) -> Vec<PhaseStats> {
    let finished = || {
        run.attempts()
            .filter(|attempt| attempt.closes_slot && matches!(attempt.ending, Ending::Finished { .. }))
            .map(|attempt| attempt.times_us)
    };
    let all = [
        ("lease", Per::Attempt, finished().map(|times| times.lease).collect()),
        ("setup", Per::Attempt, finished().map(|times| times.setup).collect()),
        ("policy", Per::Turn, turns.policy_us),
        ("step", Per::Turn, turns.step_us),
        ("grade", Per::Attempt, finished().map(|times| times.grade).collect()),
        ("close", Per::Attempt, finished().map(|times| times.close).collect()),
    ];
    all.into_iter()
        .filter_map(|(phase, per, durations)| {
            Some(PhaseStats { phase, per, durations: Histogram::of(durations)? })
        })
        .collect()
}
