//! A folder with gates over a suite: its own `small` or another.

use std::fs;

use serde_json::Value;

use crate::place::{Place, Said};

/// Gate settings for a deterministic policy.
pub(super) const STEADY: &str = "deterministic: true\nmetrics: [{ metric: pass_rate, min_effect: 0.1 }]\n";

pub(super) struct Ground {
    pub(super) place: Place,
    /// The suite as named in gate files.
    suite: String,
}

impl Ground {
    /// Creates the gate `steady` with a baseline of this policy.
    pub(super) fn accepted(policy: &str) -> Self {
        let ground = Self { place: Place::new(), suite: "path: ../tasks/small".to_owned() };
        ground.gate("steady", policy, STEADY);
        ground.accept("steady");
        ground
    }

    /// Without gates; they will use another suite.
    #[cfg(feature = "torch")]
    pub(super) fn over(suite: &std::path::Path, taken: &str) -> Self {
        Self { place: Place::new(), suite: format!("path: {}, {taken}", suite.display()) }
    }

    /// Writes `gates/NAME.yaml`.
    pub(super) fn gate(&self, name: &str, policy: &str, rest: &str) {
        let suite = &self.suite;
        let text = format!("format: 1\ngate: {name}\nsuites: [{{ {suite} }}]\npolicy: {policy}\n{rest}");
        fs::create_dir_all(self.place.path().join("gates")).unwrap();
        fs::write(self.place.path().join(format!("gates/{name}.yaml")), text).unwrap();
    }

    /// Runs a gate and accepts the run as its baseline.
    pub(super) fn accept(&self, name: &str) {
        self.place.clawrl(&["ci", "accept", &format!("gates/{name}.yaml"), "--quiet"]).ends(0);
    }

    /// Evaluates a gate.
    pub(super) fn judge(&self, name: &str, more: &[&str]) -> Said {
        self.place.clawrl(&[&["ci", &format!("gates/{name}.yaml"), "--quiet"], more].concat())
    }

    /// Evaluates a gate; returns the outcome as JSON.
    #[track_caller]
    pub(super) fn assessment(&self, name: &str, more: &[&str], code: i32) -> Value {
        self.judge(name, &[more, &["--json"]].concat()).ends(code).json()[0].clone()
    }

    pub(super) fn baseline(&self, name: &str) -> std::path::PathBuf {
        self.place.results().join(format!("baselines/{name}.json"))
    }
}
