//! Identifiers as newtypes, so that a slot cannot be mistaken for a task.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a run: its folder under `results/runs/`, and the label on everything it creates.
///
/// Only ASCII letters, digits, `-`, `_` and `.`, so that it is valid as a folder, a cgroup and a part of a host name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Accepts 1 to 64 characters of the allowed set that do not start with `.`.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(allowed);
        fits.then(|| Self(name.to_owned()))
    }

    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of a task, unique within a plan: `<suite>/<task>` or `<suite>/<task>#<instance>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Position of a task in [`crate::RunPlan::tasks`]. Axis letter P.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskIndex(pub u32);

/// Position of a slot in [`crate::RunPlan::slots`]. The run fills each slot exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotId(pub u32);

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A group: the slots of one task and seed that share a baseline. Axis letter G runs over its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u32);

/// Fencing epoch: raised by one with every lease that a run grants, across resumes. A result that
/// carries an epoch older than its slot's current one is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// One try at a slot, numbered from 0 within the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    /// The slot it tries to fill.
    pub slot: SlotId,
    /// 0 for the first try.
    pub number: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_are_safe_as_folders() {
        for good in ["a", "2026-11-20_terminal-basics.1", &"x".repeat(64)] {
            assert!(RunId::new(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(RunId::new(bad).is_none(), "{bad}");
        }
    }
}
