//! The settings of the policy-gradient loss, as a training file writes them.

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;

/// Settings of [`crate::policy_gradient`] and of how its terms are added up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyLoss {
    /// The ratio is clipped below 1 minus this.
    pub clip_low: f64,
    /// The ratio is clipped above 1 plus this.
    pub clip_high: f64,
    /// Bound of the loss at tokens of negative advantage, as a multiple of |A|; over 1.
    pub dual_clip: Option<f64>,
    /// How the difference between the proximal and the behaviour policy is corrected.
    pub weighting: Weighting,
    /// What the loss is a mean over.
    pub aggregation: Aggregation,
}

impl Default for PolicyLoss {
    fn default() -> Self {
        Self {
            clip_low: 0.2,
            clip_high: 0.28,
            dual_clip: None,
            weighting: Weighting::default(),
            aggregation: Aggregation::default(),
        }
    }
}

/// Detached importance weight of a token, from e^(o-b).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Weighting {
    /// 1.
    None,
    /// min(e^(o-b), cap) of the token.
    Token {
        /// Its bound.
        cap: f64,
    },
    /// min(e^(sum of o-b), cap) of the segment.
    Sequence {
        /// Its bound.
        cap: f64,
    },
    /// min(e^(mean of o-b), cap) of the segment.
    Geometric {
        /// Its bound.
        cap: f64,
    },
    /// e^(o-b) of the token where that is in [low, high], else 0.
    #[serde(rename = "icepop")]
    IcePop {
        /// The least ratio that counts.
        low: f64,
        /// The greatest ratio that counts.
        high: f64,
    },
}

impl Default for Weighting {
    fn default() -> Self {
        Self::Token { cap: 2.0 }
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{setting} is {value}; {range}")]
pub struct LossConfigError {
    /// Its key, `clip_low`.
    pub setting: &'static str,
    /// What it is.
    pub value: f64,
    /// What it can be, as half a sentence.
    pub range: &'static str,
}

impl PolicyLoss {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), LossConfigError> {
        require(
            "clip_low",
            self.clip_low,
            (0.0..1.0).contains(&self.clip_low),
            "it is at least 0 and below 1",
        )?;
        require("clip_high", self.clip_high, self.clip_high >= 0.0, "it is at least 0")?;
        if let Some(bound) = self.dual_clip {
            require("dual_clip", bound, bound > 1.0, "it is over 1")?;
        }
        match self.weighting {
            Weighting::None => Ok(()),
            Weighting::Token { cap } | Weighting::Sequence { cap } | Weighting::Geometric { cap } => {
                require("cap", cap, cap > 0.0, "it is over 0")
            }
            Weighting::IcePop { low, high } => {
                require("low", low, low >= 0.0, "it is at least 0")?;
                require("high", high, high > low, "it is over `low`")
            }
        }
    }
}

fn require(
    setting: &'static str,
    value: f64,
    holds: bool,
    range: &'static str,
) -> Result<(), LossConfigError> {
    if holds && value.is_finite() { Ok(()) } else { Err(LossConfigError { setting, value, range }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<PolicyLoss, &str>) {
        let read: Result<PolicyLoss, String> = serde_json::from_str(text).map_err(|error| error.to_string());
        let checked = read.and_then(|config: PolicyLoss| {
            config.check().map_err(|error| error.to_string())?;
            Ok(config)
        });
        match expected {
            Ok(expected) => assert_eq!(checked, Ok(expected), "{text}"),
            Err(expected) => {
                let error = checked.unwrap_err();
                assert!(error.contains(expected), "{text}: {error}");
            }
        }
    }

    #[test]
    fn as_written() {
        let default = PolicyLoss::default();
        check("{}", Ok(default));
        check(r#"{"weighting": "none"}"#, Ok(PolicyLoss { weighting: Weighting::None, ..default }));
        let icepop = Weighting::IcePop { low: 0.5, high: 5.0 };
        check(
            r#"{"weighting": {"icepop": {"low": 0.5, "high": 5}}}"#,
            Ok(PolicyLoss { weighting: icepop, ..default }),
        );
        let episodes = PolicyLoss { aggregation: Aggregation::EpisodeMean, ..default };
        check(r#"{"aggregation": "episode_mean"}"#, Ok(episodes));
    }

    #[test]
    fn refused() {
        check(r#"{"clip": 0.2}"#, Err("unknown field `clip`"));
        check(r#"{"weighting": {"token": {"cap": 2, "low": 1}}}"#, Err("unknown field `low`"));
        check(r#"{"clip_low": 1.0}"#, Err("clip_low is 1; it is at least 0 and below 1"));
        check(r#"{"dual_clip": 0.5}"#, Err("dual_clip is 0.5; it is over 1"));
        check(r#"{"weighting": {"sequence": {"cap": 0}}}"#, Err("cap is 0; it is over 0"));
        check(r#"{"weighting": {"icepop": {"low": 2, "high": 1}}}"#, Err("high is 1; it is over `low`"));
        check(r#"{"aggregation": {"constant": {"max_tokens": 0}}}"#, Err("nonzero"));
    }
}
