//! The run plans that a training is made of.
//!
//! I1. A plan is a function of the training's tasks, its seed and the arguments; a longer training begins with the
//! slots of a shorter one. I2. Members of a group are adjacent and share task and environment seed; policy seeds all
//! differ. I3. Demonstrations and reinforcement learning see tasks of the training part only, evaluations tasks of
//! the held-out part only.
//!
//! Errors: [`ConfigError`] without a span, because no single suite is the cause.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use clawrl_core::{
    Determinism, FORMAT_VERSION, GroupId, PolicySpec, ResolvedLimits, RunId, RunPlan, SlotId, SlotSpec,
    SuiteRef, TaskIndex, TaskSpec, derive_seed, stable_hash,
};

use super::plan::{RlPlan, WarmStartPlan};
use super::rota::{Mixture, RotaFamily, RotaSuite, Turn, shuffled};
use super::tasks::{FamilyTasks, TrainTasks};
use crate::capacity::HostCapacity;
use crate::problem::{ConfigError, Problem};
use crate::resolve::{Wish, concurrency, judge_of};
use crate::select::spread_evenly;

/// Inputs of a run of a training, besides the training's plan.
#[derive(Debug, Clone)]
pub struct TrainRun {
    /// Id of the run.
    pub run: RunId,
    /// Free resources of the host.
    pub host: HostCapacity,
}

impl TrainTasks {
    /// A run of the demonstrator over the training part: one slot for each demonstration.
    ///
    /// # Errors
    /// The training has no warm start or no training tasks, or the concurrency exceeds the host's resources.
    pub fn demonstration_plan(&self, run: &TrainRun) -> Result<RunPlan, ConfigError> {
        let Some(warm_start) = &self.train.warm_start else {
            let help = "add `warm_start: {}` to the train file";
            return Err(Problem::new("there are no demonstrations without a warm start", help).into());
        };
        let WarmStartPlan { demonstrations, oracle_percent, .. } = *warm_start;
        let policy = PolicySpec::Demonstrator { oracle_percent };
        self.in_turns("demonstrations", u64::from(demonstrations), 1, policy, run)
    }

    /// A run of the policy in this folder over the training part, with all groups that the training may try; groups are
    /// released on demand. Without reinforcement learning the run has no groups and only describes the training.
    ///
    /// # Errors
    /// Reinforcement learning has no training tasks, or the concurrency exceeds the host's resources.
    pub fn rl_plan(&self, policy: &Path, run: &TrainRun) -> Result<RunPlan, ConfigError> {
        let Some(rl) = &self.train.rl else {
            let policy = self.train.evaluation.sampling().spec(policy.to_owned());
            return self.finish(Slots::new(self.train.seed, 1), policy, run);
        };
        let RlPlan { group_size, sampling, .. } = *rl;
        self.in_turns("rl", rl.groups(), group_size, sampling.spec(policy.to_owned()), run)
    }

    /// A greedy run of the policy in this folder over the held-out part: one slot for each task, as many as the
    /// training asks for, spread evenly over the families.
    ///
    /// # Errors
    /// There are fewer tasks than the training needs, or the concurrency exceeds the host's resources.
    pub fn evaluation_plan(&self, policy: &Path, run: &TrainRun) -> Result<RunPlan, ConfigError> {
        let evaluation = &self.train.evaluation;
        let there = self.held_out().count();
        if there < evaluation.min_tasks as usize {
            let message = format!(
                "the held-out part of these suites has {there} tasks, and an evaluation takes {} at least",
                evaluation.min_tasks
            );
            let help = "raise `instances` of the suites, or lower `min_tasks` of `evaluation:`";
            return Err(Problem::new(message, help).into());
        }
        let seed = derive_seed(self.train.seed, "evaluation", &[]);
        let mut chosen: Vec<Vec<(usize, Arc<TaskSpec>)>> = Vec::new();
        for family in &self.families {
            let order =
                shuffled(&(0..family.held_out.len()).collect::<Vec<_>>(), self.family_seed(family, seed));
            let task = |at: usize| (family.suite, Arc::clone(&family.held_out[at]));
            chosen.push(order.into_iter().map(task).collect());
        }
        spread_evenly(&mut chosen, evaluation.max_tasks as usize);
        let mut slots = Slots::new(seed, 1);
        chosen.into_iter().flatten().for_each(|(suite, task)| slots.add(suite, &task, 0));
        self.finish(slots, evaluation.sampling().spec(policy.to_owned()), run)
    }

    fn family_seed(&self, family: &FamilyTasks, seed: u64) -> u64 {
        derive_seed(seed, "family", &[stable_hash(self.name(family).as_bytes())])
    }

    fn name(&self, family: &FamilyTasks) -> String {
        format!("{}/{}", self.suites[family.suite].name(), family.id)
    }

    /// Weight of a suite relative to the others.
    fn weight(&self, position: usize) -> u32 {
        let families =
            self.families.iter().filter(|family| family.suite == position && !family.train.is_empty());
        // There are not more families than tasks, whose numbers are 32 bits wide.
        self.train.suites[position].weight.unwrap_or(families.count().max(1) as u32)
    }

    /// Groups of tasks of the training part. Suites occur in proportion to their weights, and the families of a suite take turns.
    fn in_turns(
        &self,
        purpose: &str,
        groups: u64,
        group_size: u32,
        policy: PolicySpec,
        run: &TrainRun,
    ) -> Result<RunPlan, ConfigError> {
        let seed = derive_seed(self.train.seed, purpose, &[]);
        let mut tasks: Vec<(usize, &Arc<TaskSpec>)> = Vec::new();
        let suite = |(position, suite): (usize, &crate::Suite)| RotaSuite {
            name: suite.name().to_owned(),
            weight: self.train.suites[position].weight.map(|_| self.weight(position)),
            families: Vec::new(),
        };
        let mut suites: Vec<RotaSuite> = self.suites.iter().enumerate().map(suite).collect();
        for family in &self.families {
            let first = tasks.len();
            tasks.extend(family.train.iter().map(|task| (family.suite, task)));
            let (name, tasks) = (self.name(family), (first..tasks.len()).collect());
            suites[family.suite].families.push(RotaFamily { name, weight: 1, tasks });
        }
        if tasks.is_empty() {
            let help = "name suites with more tasks, or raise their `instances`";
            return Err(Problem::new("the training part of these suites has no task", help).into());
        }
        let mut slots = Slots::new(seed, group_size);
        let turns = usize::try_from(groups).unwrap_or(usize::MAX);
        for Turn { task, visit } in Mixture::new(suites, seed).take(turns) {
            let (suite, task) = tasks[task];
            slots.add(suite, task, visit);
        }
        self.finish(slots, policy, run)
    }

    fn finish(&self, slots: Slots, policy: PolicySpec, run: &TrainRun) -> Result<RunPlan, ConfigError> {
        let limits = &self.train.limits;
        let Slots { tasks, list, .. } = slots;
        let wish = Wish { attempts: limits.concurrency, written: "concurrency: " };
        let help = "name the policy file of a model in the train file: `judge: judge.yaml`";
        let judge = judge_of(&tasks, &self.suites, self.train.judge.as_deref(), help)?;
        let attempts = concurrency(&tasks, list.len(), wish, &run.host)?.attempts;
        let suite = |(position, suite): (usize, &crate::Suite)| SuiteRef {
            name: suite.name().to_owned(),
            path: suite.path().to_owned(),
            sha256: suite.sha256().to_owned(),
            weight: self.weight(position),
        };
        Ok(RunPlan {
            format: FORMAT_VERSION,
            run: run.run.clone(),
            seed: self.train.seed,
            suites: self.suites.iter().enumerate().map(suite).collect(),
            policy,
            judge,
            tasks,
            slots: list,
            limits: ResolvedLimits {
                concurrency: attempts,
                prewarm: limits.prewarm.min(attempts),
                max_retries: limits.max_retries,
                max_faults: None,
            },
            determinism: Determinism::default(),
        })
    }
}

/// Lays out groups in sequence. Tasks are listed in order of first occurrence.
struct Slots {
    seed: u64,
    group_size: u32,
    tasks: Vec<Arc<TaskSpec>>,
    /// By id.
    known: HashMap<String, TaskIndex>,
    list: Vec<SlotSpec>,
    groups: u32,
}

impl Slots {
    fn new(seed: u64, group_size: u32) -> Self {
        Self { seed, group_size, tasks: Vec::new(), known: HashMap::new(), list: Vec::new(), groups: 0 }
    }

    /// Adds a group. All counts fit: a training has as many slots as a plan may have, or was refused.
    fn add(&mut self, suite: usize, task: &Arc<TaskSpec>, visit: u32) {
        let next = TaskIndex(self.tasks.len() as u32);
        let index = *self.known.entry(task.id.0.clone()).or_insert(next);
        if index == next {
            self.tasks.push(Arc::clone(task));
        }
        let name = stable_hash(task.id.0.as_bytes());
        let visit = u64::from(visit);
        let env_seed = derive_seed(self.seed, "env", &[name, visit]);
        for member in 0..self.group_size {
            self.list.push(SlotSpec {
                id: SlotId(self.list.len() as u32),
                task: index,
                suite: suite as u32,
                group: GroupId(self.groups),
                member,
                env_seed,
                policy_seed: derive_seed(self.seed, "policy", &[name, visit, u64::from(member)]),
            });
        }
        self.groups += 1;
    }
}
