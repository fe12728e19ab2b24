//! Summary of a plan, for people and scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clawrl_core::{NetworkPolicy, PolicySpec, RemoteSpec, RunPlan, SandboxKind, Split};
use serde::Serialize;

use crate::capacity::{BrowserPlace, HostCapacity, Resource, ResourceBound};
use crate::problem::ProblemReport;
use crate::resolve::{PlanOptions, Wish, concurrency, load_of, needed_of};
use crate::sandbox::{Sandbox, sandbox_of};
use crate::suite::{Family, Suite};

/// Everything that `clawrl plan` shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSummary {
    /// Name of the run.
    pub run: String,
    /// Root of all seeds.
    pub seed: u64,
    /// The acting policy.
    pub policy: PolicySpec,
    /// The model that judges by rubrics, if a task has a rubric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<Box<RemoteSpec>>,
    /// Part of the tasks.
    pub split: Split,
    /// Tasks in all.
    pub tasks: usize,
    /// Groups in all: tasks times repeats.
    pub groups: usize,
    /// Slots in all: groups times members.
    pub slots: usize,
    /// Environment seeds for each task.
    pub repeats: u32,
    /// Members of a group.
    pub group_size: u32,
    /// By suite.
    pub suites: Vec<SuiteSummary>,
    /// Attempts at once, and why that many.
    pub concurrency: ConcurrencySummary,
    /// Environments prepared before the first dispatch.
    pub prewarm: u32,
    /// Further attempts after a fault whose retry is sound.
    pub max_retries: u32,
    /// Faulted slots after which the run stops.
    pub max_faults: Option<u32>,
    /// Limits of one attempt: minimum and maximum over all tasks.
    pub limits: BTreeMap<&'static str, [u64; 2]>,
    /// Time limits, milliseconds: minimum and maximum over all tasks.
    pub timeouts_millis: BTreeMap<&'static str, [u64; 2]>,
    /// Tasks that run without a sandbox.
    pub tasks_without_sandbox: usize,
    /// Tasks that have the network of the host.
    pub tasks_with_network: usize,
    /// Warnings about the suites.
    pub warnings: Vec<ProblemReport>,
}

/// The selected part of a suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuiteSummary {
    /// Name of the suite.
    pub name: String,
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The file it was read from.
    pub path: std::path::PathBuf,
    /// Hex SHA-256 over the file and its fixtures.
    pub sha256: String,
    /// Weight of the suite in the choice of tasks.
    pub weight: u32,
    /// Selected tasks.
    pub tasks: usize,
    /// Their slots.
    pub slots: usize,
    /// By entry of `tasks:`.
    pub families: Vec<FamilySummary>,
}

/// The selected part of a family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FamilySummary {
    /// Selected tasks; the family may have more.
    pub tasks: usize,
    /// Their slots.
    pub slots: usize,
    /// The family as the suite has it.
    #[serde(flatten)]
    pub family: Family,
}

/// Attempts at once, and why that many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConcurrencySummary {
    /// Concurrent attempts.
    pub attempts: u32,
    /// Reason for the number, as a sentence fragment.
    pub reason: String,
    /// Comfortable concurrency by resource of the host.
    pub room: Vec<ResourceBound>,
    /// Free resources of the host.
    pub host: HostCapacity,
}

/// Describes a plan that was made from these suites and options.
#[must_use]
pub fn describe_plan(plan: &RunPlan, suites: &[Suite], options: &PlanOptions) -> PlanSummary {
    let mut slots_of = vec![0usize; plan.tasks.len()];
    for slot in &plan.slots {
        slots_of[slot.task.0 as usize] += 1;
    }
    let mut counts: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for (task, slots) in plan.tasks.iter().zip(slots_of) {
        let count = counts.entry((&task.suite, &task.family)).or_default();
        count.0 += 1;
        count.1 += slots;
    }
    let summaries = suites.iter().map(|suite| {
        let families: Vec<FamilySummary> = suite
            .families()
            .into_iter()
            .filter_map(|family| {
                let &(tasks, slots) = counts.get(&(suite.name(), family.id.as_str()))?;
                Some(FamilySummary { tasks, slots, family })
            })
            .collect();
        SuiteSummary {
            name: suite.name().to_owned(),
            description: suite.description().map(str::to_owned),
            path: suite.path().to_owned(),
            sha256: suite.sha256().to_owned(),
            weight: options.weights.get(suite.name()).copied().unwrap_or(1),
            tasks: families.iter().map(|family| family.tasks).sum(),
            slots: families.iter().map(|family| family.slots).sum(),
            families,
        }
    });
    let place = options.host.browsers;
    PlanSummary {
        run: plan.run.to_string(),
        seed: plan.seed,
        policy: plan.policy.clone(),
        judge: plan.judge.clone(),
        split: options.split,
        tasks: plan.tasks.len(),
        groups: plan.slots.last().map_or(0, |slot| slot.group.0 as usize + 1),
        slots: plan.slots.len(),
        repeats: options.repeats,
        group_size: options.group_size,
        suites: summaries.collect(),
        concurrency: concurrency_summary(plan, options),
        prewarm: plan.limits.prewarm,
        max_retries: plan.limits.max_retries,
        max_faults: plan.limits.max_faults,
        limits: limits(plan, place),
        timeouts_millis: timeouts(plan),
        tasks_without_sandbox: count(plan, place, |sandbox| sandbox.kind == SandboxKind::None),
        tasks_with_network: count(plan, place, |sandbox| sandbox.network != NetworkPolicy::None),
        warnings: suites.iter().flat_map(Suite::warnings).map(crate::Problem::report).collect(),
    }
}

fn concurrency_summary(plan: &RunPlan, options: &PlanOptions) -> ConcurrencySummary {
    let mut room = options.host.comfortable(load_of(&plan.tasks, options.host.browsers)).to_vec();
    if needed_of(&options.host, &plan.tasks) != options.host {
        room.retain(|bound| !matches!(bound.resource, Resource::PseudoTerminals | Resource::Processes));
    }
    let slots = plan.slots.len();
    let attempts = plan.limits.concurrency;
    // A plan that was made has passed this.
    let bound = concurrency(&plan.tasks, slots, Wish::argument(options.concurrency), &options.host).ok();
    let bound = bound.and_then(|concurrency| concurrency.bound);
    let reason = match (options.concurrency, bound) {
        (Some(wish), _) if wish > attempts => format!("{wish} were asked for, but there are no more slots"),
        (Some(_), _) => "as asked for".to_owned(),
        (None, Some(resource)) => {
            format!(
                "what the {} of this host comfortably hold; --concurrency asks for more",
                resource.words()
            )
        }
        (None, None) => "every slot at once".to_owned(),
    };
    ConcurrencySummary { attempts, reason, room, host: options.host }
}

fn sandboxes(plan: &RunPlan, browsers: BrowserPlace) -> impl Iterator<Item = Sandbox> {
    plan.tasks.iter().filter_map(move |task| sandbox_of(&task.env, browsers))
}

fn count(plan: &RunPlan, browsers: BrowserPlace, wanted: impl Fn(&Sandbox) -> bool) -> usize {
    sandboxes(plan, browsers).filter(wanted).count()
}

/// Minimum and maximum of a number over all tasks.
fn spread(figures: impl Iterator<Item = u64>) -> Option<[u64; 2]> {
    figures.fold(None, |spread, figure| {
        let [least, most] = spread.unwrap_or([figure; 2]);
        Some([least.min(figure), most.max(figure)])
    })
}

fn limits(plan: &RunPlan, browsers: BrowserPlace) -> BTreeMap<&'static str, [u64; 2]> {
    let limits = || sandboxes(plan, browsers).map(|sandbox| sandbox.limits);
    let figures = [
        ("max_turns", spread(plan.tasks.iter().map(|task| task.max_turns.into()))),
        ("memory_mib", spread(limits().map(|limits| limits.memory_mib.into()))),
        ("disk_mib", spread(limits().map(|limits| limits.disk_mib.into()))),
        ("pids", spread(limits().map(|limits| limits.pids.into()))),
        ("cpu_percent", spread(limits().map(|limits| limits.cpu_percent.into()))),
    ];
    figures.into_iter().filter_map(|(name, spread)| Some((name, spread?))).collect()
}

fn timeouts(plan: &RunPlan) -> BTreeMap<&'static str, [u64; 2]> {
    let of = |limit: fn(&clawrl_core::Timeouts) -> Duration| {
        spread(plan.tasks.iter().map(|task| limit(&task.timeouts).as_millis() as u64))
    };
    let figures = [
        ("lease", of(|timeouts| timeouts.lease)),
        ("setup", of(|timeouts| timeouts.setup)),
        ("step", of(|timeouts| timeouts.step)),
        ("policy", of(|timeouts| timeouts.policy)),
        ("grade", of(|timeouts| timeouts.grade)),
        ("close", of(|timeouts| timeouts.close)),
        ("attempt", of(|timeouts| timeouts.attempt)),
    ];
    figures.into_iter().filter_map(|(name, spread)| Some((name, spread?))).collect()
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let split = match self.split {
            Split::All => "",
            Split::Train => ", training part",
            Split::HeldOut => ", held-out part",
        };
        let judge =
            self.judge.as_deref().map_or(String::new(), |judge| format!(", judge {}", remote_words(judge)));
        let policy = policy_words(&self.policy);
        writeln!(f, "run {}, policy {policy}{judge}, seed {}{split}", self.run, self.seed)?;
        writeln!(
            f,
            "{}, {} x {} x groups of {} = {}",
            counted(self.suites.len(), "suite"),
            counted(self.tasks, "task"),
            counted(self.repeats as usize, "repeat"),
            self.group_size,
            counted(self.slots, "slot")
        )?;
        let width = self.suites.iter().flat_map(|suite| &suite.families).map(|family| family.family.id.len());
        let width = width.max().unwrap_or(0).max("family".len());
        for suite in &self.suites {
            writeln!(f)?;
            let hash = suite.sha256.get(..12).unwrap_or_default();
            writeln!(f, "{}  weight {}, sha256 {hash}, {}", suite.name, suite.weight, suite.path.display())?;
            writeln!(f, "  {:width$}  tasks  of all  slots  variables", "family")?;
            for FamilySummary { tasks, slots, family } in &suite.families {
                let variables =
                    if family.variables.is_empty() { "-".to_owned() } else { family.variables.join(", ") };
                let Family { id, instances, .. } = family;
                writeln!(f, "  {id:width$}  {tasks:>5}  {instances:>6}  {slots:>5}  {variables}")?;
            }
        }
        writeln!(f)?;
        let ConcurrencySummary { attempts, reason, room, .. } = &self.concurrency;
        writeln!(f, "at once   {attempts}: {reason}")?;
        let room: Vec<String> =
            room.iter().map(|bound| format!("{} {}", bound.resource.words(), bound.attempts)).collect();
        writeln!(f, "room for  {}", room.join(", "))?;
        writeln!(
            f,
            "ahead     {} made ready; {} after a fault{}",
            self.prewarm,
            counted(self.max_retries as usize, "retry"),
            self.max_faults.map_or(String::new(), |most| format!(
                "; given up after {}",
                counted(most as usize, "fault")
            ))
        )?;
        writeln!(f, "limits    {}", spreads(&self.limits, |figure| figure.to_string()))?;
        writeln!(f, "timeouts  {}", spreads(&self.timeouts_millis, seconds))?;
        for (number, words) in
            [(self.tasks_without_sandbox, "without a sandbox"), (self.tasks_with_network, "with a network")]
        {
            if number > 0 {
                writeln!(f, "warning   {} {words}", counted(number, "task"))?;
            }
        }
        Ok(())
    }
}

fn policy_words(policy: &PolicySpec) -> String {
    match policy {
        PolicySpec::Noop => "noop".to_owned(),
        PolicySpec::Oracle => "oracle".to_owned(),
        PolicySpec::Demonstrator { oracle_percent } => {
            format!("demonstrator (oracle in {oracle_percent} % of the attempts)")
        }
        PolicySpec::Replay { run } => format!("replay of {run}"),
        PolicySpec::Random { actions } => format!("random ({})", counted(actions.len(), "action")),
        PolicySpec::Torch { path, temperature_milli: 0, .. } => format!("{}, greedy", path.display()),
        PolicySpec::Torch { path, temperature_milli, .. } => {
            format!("{}, temperature {}", path.display(), f64::from(*temperature_milli) / 1_000.0)
        }
        PolicySpec::Remote(remote) => remote_words(remote),
        PolicySpec::Cassette { path, recorded, .. } => {
            format!("cassette {} of {}", path.display(), policy_words(recorded))
        }
        PolicySpec::Agent(agent) => format!("agent {}", agent.command.join(" ")),
        _ => "a policy that is not known here".to_owned(),
    }
}

fn remote_words(remote: &RemoteSpec) -> String {
    format!("{} at {}", remote.model, remote.base_url)
}

fn counted(number: usize, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {what}s"),
    }
}

fn spreads(figures: &BTreeMap<&'static str, [u64; 2]>, show: impl Fn(u64) -> String) -> String {
    let words = figures.iter().map(|(name, [least, most])| {
        if least == most {
            format!("{name} {}", show(*least))
        } else {
            format!("{name} {} to {}", show(*least), show(*most))
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

fn seconds(millis: u64) -> String {
    format!("{} s", millis as f64 / 1_000.0)
}
