//! Summary of a training, for people and scripts.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::plan::TrainPlan;
use super::tasks::{FamilyTasks, TrainTasks};

/// Figures of a training before it begins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSummary {
    /// Everything that is settled.
    pub train: TrainPlan,
    /// Tasks to train on.
    pub train_tasks: usize,
    /// Tasks held out.
    pub held_out_tasks: usize,
    /// Held-out tasks of an evaluation.
    pub evaluation_tasks: usize,
    /// Groups that reinforcement learning may try; 0 without it.
    pub groups: u64,
    /// By entry of `tasks:`, suite by suite.
    pub families: Vec<TrainFamily>,
}

/// Tasks of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrainFamily {
    /// Name of the suite.
    pub suite: String,
    /// Id of the family.
    pub family: String,
    /// Requested number of different tasks.
    pub wanted: usize,
    /// Number of different tasks, at most the requested number.
    pub tasks: usize,
    /// Different instructions among them.
    pub instructions: usize,
    /// Number of tasks to train on.
    pub train: usize,
    /// Number of held-out tasks.
    pub held_out: usize,
}

impl TrainTasks {
    /// Describes the training.
    #[must_use]
    pub fn describe(&self) -> TrainSummary {
        let held_out_tasks = self.held_out().count();
        TrainSummary {
            train: self.train.clone(),
            train_tasks: self.train().count(),
            held_out_tasks,
            evaluation_tasks: held_out_tasks.min(self.train.evaluation.max_tasks as usize),
            groups: self.train.rl.as_ref().map_or(0, |rl| rl.groups()),
            families: self.families.iter().map(|family| self.family(family)).collect(),
        }
    }

    fn family(&self, family: &FamilyTasks) -> TrainFamily {
        let all = || family.train.iter().chain(&family.held_out);
        let instructions: BTreeSet<&str> = all().map(|task| task.instruction.as_str()).collect();
        TrainFamily {
            suite: self.suites[family.suite].name().to_owned(),
            family: family.id.clone(),
            wanted: family.wanted,
            tasks: all().count(),
            instructions: instructions.len(),
            train: family.train.len(),
            held_out: family.held_out.len(),
        }
    }
}

impl fmt::Display for TrainSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrainPlan { name, seed, reproducible, warm_start, rl, .. } = &self.train;
        writeln!(f, "training {name}, seed {seed}{}", if *reproducible { ", reproducible" } else { "" })?;
        if let Some(warm) = warm_start {
            writeln!(
                f,
                "warm start  {} demonstrations (oracle in {} %), {} steps of {}",
                warm.demonstrations, warm.oracle_percent, warm.steps, warm.batch
            )?;
        }
        if let Some(rl) = rl {
            writeln!(
                f,
                "rl          {} updates of {} groups of {}; at most {} groups tried",
                rl.updates, rl.batch_groups, rl.group_size, self.groups
            )?;
            if let Some(lora) = &rl.lora {
                writeln!(f, "adapter     {lora}")?;
            }
            if let Some(taught) = &rl.distillation {
                writeln!(f, "teacher     {taught}; outcomes count {} times", rl.outcome_weight)?;
            }
        }
        writeln!(f, "evaluation  {} of {} held-out tasks", self.evaluation_tasks, self.held_out_tasks)?;
        let names = self.families.iter().map(|family| family.suite.len() + family.family.len() + 1);
        let width = names.max().unwrap_or(0).max("suite/family".len());
        writeln!(f)?;
        writeln!(f, "{:width$}  tasks  instructions  train  held out", "suite/family")?;
        for family in &self.families {
            let TrainFamily { wanted, tasks, instructions, train, held_out, .. } = family;
            let id = format!("{}/{}", family.suite, family.family);
            write!(f, "{id:width$}  {tasks:>5}  {instructions:>12}  {train:>5}  {held_out:>8}")?;
            if tasks < wanted {
                write!(f, "  ({wanted} asked for, no more different ones found)")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
