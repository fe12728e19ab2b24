//! The settings of the policy-gradient loss, as a training file writes them.

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::distillation::{Distillation, DistillationForm};
use crate::entropy::EntropyBonus;

/// Settings of [`crate::policy_gradient`] and of the aggregation of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyLoss {
    /// The surrogate of the policy's gain, with its bounds.
    pub surrogate: Surrogate,
    /// How the difference between the proximal and the behaviour policy is corrected.
    pub weighting: Weighting,
    /// The units over which the loss is averaged.
    pub aggregation: Aggregation,
    /// The penalty for the distance to a reference policy, if any.
    pub kl: Option<KlPenalty>,
    /// The entropy bonus, if any.
    pub entropy: Option<EntropyBonus>,
    /// Factor on the advantage of the outcome; 0 if the update learns from a teacher only.
    pub outcome_weight: f64,
    /// The distillation from a teacher, if there is one.
    pub distillation: Option<Distillation>,
}

impl Default for PolicyLoss {
    fn default() -> Self {
        Self {
            surrogate: Surrogate::default(),
            weighting: Weighting::default(),
            aggregation: Aggregation::default(),
            kl: None,
            entropy: None,
            outcome_weight: 1.0,
            distillation: None,
        }
    }
}

/// The surrogate of the policy's gain at a token. rho = e^(n-o).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Surrogate {
    /// The ratio of the token, clipped (PPO, GRPO, DAPO).
    Token {
        /// Bounds of the ratio.
        clip: Clip,
        /// Bound of the loss at tokens of negative advantage, as a multiple of |A|; over 1.
        #[serde(default)]
        dual_clip: Option<f64>,
    },
    /// The ratio of the segment, the geometric mean of its tokens', clipped (GSPO).
    Sequence {
        /// Bounds of the ratio. Ratios of segments are much nearer to 1 than those of tokens.
        clip: Clip,
    },
    /// The log-probability itself, times the detached ratio to the behaviour policy, which is bounded above (CISPO). It
    /// is its own correction: [`Weighting::None`].
    Cispo {
        /// Bound of the ratio; above 0.
        cap: f64,
    },
}

/// Bounds of a ratio, as distances from 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// The ratio is clipped below 1 minus this.
    pub low: f64,
    /// The ratio is clipped above 1 plus this.
    pub high: f64,
}

impl Clip {
    /// Bounds for ratios of tokens, from DAPO.
    pub const TOKEN: Self = Self { low: 0.2, high: 0.28 };
    /// Bounds for ratios of segments, from GSPO.
    pub const SEQUENCE: Self = Self { low: 3e-4, high: 4e-4 };
}

impl Default for Surrogate {
    fn default() -> Self {
        Self::Token { clip: Clip::TOKEN, dual_clip: None }
    }
}

/// The cost of the distance to a reference policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KlPenalty {
    /// Factor on the term, above 0.
    pub coefficient: f64,
    /// The estimator of the distance.
    #[serde(default)]
    pub estimator: KlEstimator,
}

/// An estimate of the divergence at one sampled token, from q = ref - n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlEstimator {
    /// e^q - 1 - q: never negative, without bias.
    #[default]
    K3,
    /// q^2 / 2: of small variance; its derivative is that of the divergence, in expectation.
    K2,
}

/// Detached importance weight of a token, from e^(o-b).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Weighting {
    /// 1.
    None,
    /// min(e^(o-b), cap) of the token.
    Token {
        /// Bound of the weight.
        cap: f64,
    },
    /// min(e^(sum of o-b), cap) of the segment.
    Sequence {
        /// Bound of the weight.
        cap: f64,
    },
    /// min(e^(mean of o-b), cap) of the segment.
    Geometric {
        /// Bound of the weight.
        cap: f64,
    },
    /// e^(o-b) of the token where that is in [low, high], else 0.
    #[serde(rename = "icepop")]
    IcePop {
        /// The smallest ratio that counts.
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

/// Invalid settings of a loss.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LossConfigError {
    /// A setting is out of its range.
    #[error("{setting} is {value}; {range}")]
    Range {
        /// The key of the setting, such as `clip_low`.
        setting: &'static str,
        /// The rejected value.
        value: f64,
        /// The allowed range, as a phrase for the message.
        range: &'static str,
    },
    /// Two settings exclude each other.
    #[error(
        "the weighting does not go with the surrogate: ratios of a segment take `none`, `sequence` or `geometric`, `cispo` takes \
         `none`"
    )]
    Weighting,
    /// Candidates are clipped as tokens are.
    #[error(
        "candidates of a teacher go with the surrogate `token` alone: their ratios are clipped as its are"
    )]
    Candidates,
}

impl Clip {
    fn check(self) -> Result<(), LossConfigError> {
        require("clip_low", self.low, (0.0..1.0).contains(&self.low), "it is at least 0 and below 1")?;
        require("clip_high", self.high, self.high >= 0.0, "it is at least 0")
    }
}

impl Weighting {
    /// Whether both may stand in one loss: tokens that share a ratio share a weight, and a ratio to the behaviour policy
    /// has corrected for it already.
    #[must_use]
    pub fn goes_with(self, surrogate: Surrogate) -> bool {
        match surrogate {
            Surrogate::Token { .. } => true,
            Surrogate::Sequence { .. } => {
                matches!(self, Self::None | Self::Sequence { .. } | Self::Geometric { .. })
            }
            Surrogate::Cispo { .. } => self == Self::None,
        }
    }
}

impl PolicyLoss {
    /// The configuration for the update of these parameters: the weight of a teacher may fall with the versions.
    #[must_use]
    pub fn at(self, version: u64) -> Self {
        Self { distillation: self.distillation.and_then(|distillation| distillation.at(version)), ..self }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), LossConfigError> {
        match self.surrogate {
            Surrogate::Token { clip, dual_clip } => {
                clip.check()?;
                if let Some(bound) = dual_clip {
                    require("dual_clip", bound, bound > 1.0, "it is over 1")?;
                }
            }
            Surrogate::Sequence { clip } => clip.check()?,
            Surrogate::Cispo { cap } => require("cispo", cap, cap > 0.0, "it is over 0")?,
        }
        if !self.weighting.goes_with(self.surrogate) {
            return Err(LossConfigError::Weighting);
        }
        require("outcome_weight", self.outcome_weight, self.outcome_weight >= 0.0, "it is at least 0")?;
        if let Some(Distillation { weight, bound, form, fade: _ }) = self.distillation {
            require("distillation", weight, weight > 0.0, "it is over 0")?;
            require("bound", bound, bound > 0.0, "it is over 0")?;
            let is_clipped = matches!(self.surrogate, Surrogate::Token { .. });
            if form != DistillationForm::Sampled && !is_clipped {
                return Err(LossConfigError::Candidates);
            }
        }
        if let Some(KlPenalty { coefficient, .. }) = self.kl {
            require("kl", coefficient, coefficient > 0.0, "it is over 0")?;
        }
        if let Some(EntropyBonus { coefficient, floor }) = self.entropy {
            require("entropy", coefficient, coefficient > 0.0, "it is over 0")?;
            require("floor", floor, floor > 0.0 && floor <= 1.0, "it is over 0, and 1 at most")?;
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
    if holds && value.is_finite() { Ok(()) } else { Err(LossConfigError::Range { setting, value, range }) }
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
        let token = |rest: &str| format!(r#"{{"surrogate": {{"token": {{{rest}}}}}}}"#);
        check(r#"{"clip": 0.2}"#, Err("unknown field `clip`"));
        check(r#"{"weighting": {"token": {"cap": 2, "low": 1}}}"#, Err("unknown field `low`"));
        check(&token(r#""clip": {"low": 1, "high": 0}"#), Err("clip_low is 1; it is at least 0 and below 1"));
        check(
            &token(r#""clip": {"low": 0.2, "high": 0.2}, "dual_clip": 0.5"#),
            Err("dual_clip is 0.5; it is over 1"),
        );
        check(
            r#"{"surrogate": {"cispo": {"cap": 0}}, "weighting": "none"}"#,
            Err("cispo is 0; it is over 0"),
        );
        check(r#"{"weighting": {"sequence": {"cap": 0}}}"#, Err("cap is 0; it is over 0"));
        check(r#"{"weighting": {"icepop": {"low": 2, "high": 1}}}"#, Err("high is 1; it is over `low`"));
        check(r#"{"aggregation": {"constant": {"max_tokens": 0}}}"#, Err("nonzero"));
        check(r#"{"kl": {"coefficient": 0}}"#, Err("kl is 0; it is over 0"));
        check(r#"{"entropy": {"coefficient": 0, "floor": 0.3}}"#, Err("entropy is 0; it is over 0"));
        check(
            r#"{"entropy": {"coefficient": 1, "floor": 2}}"#,
            Err("floor is 2; it is over 0, and 1 at most"),
        );
        check(r#"{"outcome_weight": -1}"#, Err("outcome_weight is -1; it is at least 0"));
        check(r#"{"distillation": {"weight": 0}}"#, Err("distillation is 0; it is over 0"));
        check(r#"{"distillation": {"bound": 0}}"#, Err("bound is 0; it is over 0"));
        let candidates = r#""distillation": {"form": {"top_k": {"k": 4, "weight": "mass"}}}"#;
        check(
            &format!(r#"{{"surrogate": {{"cispo": {{"cap": 5}}}}, "weighting": "none", {candidates}}}"#),
            Err("candidates of a teacher go with the surrogate `token`"),
        );
        let apart = Err("the weighting does not go with the surrogate");
        check(r#"{"surrogate": {"cispo": {"cap": 5}}}"#, apart);
        let sequence = r#""surrogate": {"sequence": {"clip": {"low": 3e-4, "high": 4e-4}}}"#;
        check(&format!("{{{sequence}}}"), apart);
        let fits = PolicyLoss {
            surrogate: Surrogate::Sequence { clip: Clip::SEQUENCE },
            weighting: Weighting::Geometric { cap: 2.0 },
            ..PolicyLoss::default()
        };
        check(&format!(r#"{{{sequence}, "weighting": {{"geometric": {{"cap": 2}}}}}}"#), Ok(fits));
    }
}
