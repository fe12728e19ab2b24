//! One entry of `tasks:`, with the defaults laid below it.

use clawrl_core::{ActionFormat, RewardMap, TaskId, Timeouts};
use minijinja::Value;

use super::builder::TaskBuilder;
use super::environment::Named;
use crate::draw::{self, Assignment, Variable};
use crate::file::{CheckFile, Located, ScriptFile, Text};
use crate::source::Span;

/// Instances of each template that are tried when a suite is checked.
const TRIED_INSTANCES: usize = 8;

/// Seed of the instances that are tried.
const TRIED_SEED: u64 = 0;

/// One entry of `tasks:`, with strings in file form.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Text,
    pub(crate) variables: Vec<Variable>,
    pub(crate) lets: Vec<(Text, Text)>,
    pub(crate) instances: Instances,
    pub(crate) instruction: Text,
    pub(crate) env: Named,
    /// Whether the task names exactly one environment.
    pub(super) env_is_known: bool,
    /// Place of the environment, or else of the id.
    pub(super) place: Span,
    pub(crate) checks: Option<Located<Vec<Located<CheckFile>>>>,
    pub(super) checks_need_sandbox: bool,
    pub(crate) oracle: Option<Located<ScriptFile>>,
    pub(crate) mistakes: Vec<Located<ScriptFile>>,
    pub(crate) settings: Settings,
    pub(super) given: Given,
}

/// Number of tasks that a row generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instances {
    /// No template: one task without index.
    Plain,
    /// Every combination in natural order; this many. 0 only while a template with a problem is checked.
    All(usize),
    /// This many, drawn by seed.
    Drawn(usize),
}

impl Instances {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::All(count) | Self::Drawn(count) => count,
        }
    }
}

/// Settings that need no rendering.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) group_size: u32,
    pub(crate) max_turns: u32,
    pub(crate) action_format: ActionFormat,
    pub(crate) reward: RewardMap,
    pub(crate) timeouts: Timeouts,
}

/// Settings that the file contains. The defaults of the others depend on the environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) setup: bool,
    pub(super) grade: bool,
    pub(super) action_format: Option<Span>,
}

impl Row {
    /// The environment, if the task names exactly one.
    pub(super) fn known_env(&self) -> Option<&Named> {
        self.env_is_known.then_some(&self.env)
    }

    /// `<suite>/<task>`, with `#<index>` for instances of a template.
    pub(crate) fn task_id(&self, suite: &str, index: Option<usize>) -> TaskId {
        TaskId(match index {
            Some(index) => format!("{suite}/{}#{index}", self.id.value),
            None => format!("{suite}/{}", self.id.value),
        })
    }

    /// The values of the instances, in order of index; one empty assignment without a template.
    pub(crate) fn assignments(&self, seed: u64) -> Vec<Assignment> {
        match self.instances {
            Instances::Plain => vec![Vec::new()],
            Instances::All(count) => draw::all(&self.variables, count).unwrap_or_default(),
            Instances::Drawn(count) => draw::some(&self.variables, count, seed),
        }
    }
}

impl<'s> TaskBuilder<'_, '_, 's> {
    /// Makes a few instances for the problems that they show. Without any, because the template has a problem, only
    /// strings without a template are looked at.
    pub(super) fn try_instances(&mut self, suite: &str, row: &'s Row, texts: &[(&'s str, Span)]) {
        self.skip_unknown_names(row, texts);
        let assignments = match row.instances {
            Instances::Drawn(count) => draw::some(&row.variables, count.min(TRIED_INSTANCES), TRIED_SEED),
            Instances::Plain | Instances::All(_) => row.assignments(TRIED_SEED),
        };
        let step = assignments.len().div_ceil(TRIED_INSTANCES).max(1);
        let mut tried: Vec<Option<Value>> =
            assignments.iter().step_by(step).map(|assignment| self.values(row, assignment)).collect();
        if tried.is_empty() {
            tried.push(None);
        }
        for values in tried {
            if values.is_none() {
                self.skip_templates(texts);
            }
            self.task(suite, row, None, &values.unwrap_or_default());
        }
    }
}
