//! Conditions that must be equal on both sides of a comparison. The policy is not one of them: it is what is compared.
//!
//! I1. Equal conditions have equal hashes on every machine: they contain no paths. I2. Every difference is named.
//!
//! Pure; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};

use clawrl_core::{Determinism, KeySource, RemoteSpec, RunPlan, sha256_hex};
use serde::{Deserialize, Serialize};

/// Maximum tasks named in a difference.
const NAMED: usize = 5;

/// The conditions of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Hex SHA-256 of each suite with its fixtures, by name.
    pub suites: BTreeMap<String, String>,
    /// Ids of the tasks.
    pub tasks: BTreeSet<String>,
    /// Root of all seeds; it also chooses the values of templates.
    pub seed: u64,
    /// Maximum retries after a retryable fault.
    pub max_retries: u32,
    /// Fixed settings of every environment.
    pub determinism: Determinism,
    /// Name of the rubric judge with a hash of its settings; `None` without rubrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}

impl Conditions {
    /// The conditions of a run.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Self {
        Self {
            suites: plan.suites.iter().map(|suite| (suite.name.clone(), suite.sha256.clone())).collect(),
            tasks: plan.tasks.iter().map(|task| task.id.0.clone()).collect(),
            seed: plan.seed,
            max_retries: plan.limits.max_retries,
            determinism: plan.determinism.clone(),
            judge: plan.judge.as_deref().map(judge),
        }
    }

    /// Hex SHA-256 of the conditions.
    #[must_use]
    pub fn sha256(&self) -> String {
        // Keys are strings and no value is a float, so this never falls back to the empty default.
        sha256_hex(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// One clause for each difference from `other`; empty if they are equal.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let names: BTreeSet<&String> = self.suites.keys().chain(other.suites.keys()).collect();
        for name in names {
            match (self.suites.get(name), other.suites.get(name)) {
                (Some(before), Some(after)) if before != after => {
                    found.push(format!("the suite `{name}` has changed"));
                }
                (Some(_), None) => found.push(format!("the suite `{name}` is gone")),
                (None, Some(_)) => found.push(format!("the suite `{name}` is new")),
                _ => {}
            }
        }
        let listed = |tasks: Vec<&String>, what: &str| {
            let named: Vec<String> = tasks.iter().take(NAMED).map(|task| format!("`{task}`")).collect();
            let more = if tasks.len() > NAMED { ", ..." } else { "" };
            let (count, is) = (tasks.len(), if tasks.len() == 1 { "task is" } else { "tasks are" });
            (count > 0).then(|| format!("{count} {is} {what}: {}{more}", named.join(", ")))
        };
        found.extend(listed(self.tasks.difference(&other.tasks).collect(), "gone"));
        found.extend(listed(other.tasks.difference(&self.tasks).collect(), "new"));
        if self.seed != other.seed {
            found.push(format!("the seed was {} and is {}", self.seed, other.seed));
        }
        if self.max_retries != other.max_retries {
            let (before, after) = (self.max_retries, other.max_retries);
            found.push(format!(
                "faults were retried up to {before} times and are now retried up to {after} times"
            ));
        }
        if self.judge != other.judge {
            let word = |judge: &Option<String>| judge.clone().unwrap_or_else(|| "no judge".to_owned());
            found.push(format!(
                "answers were graded by {} and are now graded by {}",
                word(&self.judge),
                word(&other.judge)
            ));
        }
        if self.determinism != other.determinism {
            found.push("the time zone, locale, date or hash seed of environments has changed".to_owned());
        }
        found
    }
}

/// Model and server, and all settings but the key, which may be another one's.
fn judge(spec: &RemoteSpec) -> String {
    let settings = RemoteSpec { key: KeySource::None, ..spec.clone() };
    let hash = sha256_hex(&serde_json::to_vec(&settings).unwrap_or_default());
    format!("{} at {} ({})", spec.model, spec.base_url, hash.get(..12).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions() -> Conditions {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Conditions {
            suites: BTreeMap::from([("s".to_owned(), "1f".to_owned())]),
            tasks: names(&["s/a", "s/b"]),
            seed: 0,
            max_retries: 1,
            determinism: Determinism::default(),
            judge: None,
        }
    }

    /// I1, I2.
    #[test]
    fn differences_are_listed() {
        let check = |change: fn(&mut Conditions), expected: &[&str]| {
            let mut other = conditions();
            change(&mut other);
            assert_eq!(conditions().differences(&other), expected);
            assert_eq!(conditions().sha256() == other.sha256(), expected.is_empty());
        };
        check(|_| (), &[]);
        check(
            |other| drop(other.suites.insert("s".to_owned(), "2e".to_owned())),
            &["the suite `s` has changed"],
        );
        check(|other| drop(other.suites.insert("t".to_owned(), String::new())), &["the suite `t` is new"]);
        check(|other| drop(other.suites.remove("s")), &["the suite `s` is gone"]);
        check(|other| other.tasks.retain(|task| task != "s/a"), &["1 task is gone: `s/a`"]);
        check(
            |other| other.tasks.extend((0..6).map(|at| format!("t/{at}"))),
            &["6 tasks are new: `t/0`, `t/1`, `t/2`, `t/3`, `t/4`, ..."],
        );
        check(|other| other.seed = 3, &["the seed was 0 and is 3"]);
        check(
            |other| other.max_retries = 0,
            &["faults were retried up to 1 times and are now retried up to 0 times"],
        );
        check(
            |other| other.judge = Some("m at u (0)".to_owned()),
            &["answers were graded by no judge and are now graded by m at u (0)"],
        );
        check(
            |other| other.determinism.time_zone = "CET".to_owned(),
            &["the time zone, locale, date or hash seed of environments has changed"],
        );
    }
}
