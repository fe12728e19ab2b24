//! The last accepted state of a learner, for rollback: parameters, moments, the averaged teacher and the entropy bonus.
//!
//! I1. A rollback restores the accepted state bit for bit. Later updates equal those of a learner that never made the
//! rejected ones, except for the version numbers. I2. Version numbers only rise: a rejected number is not used again. I3. A
//! learner that never accepts a state has no cost. I4. The divergence of a version from the accepted one is a function of
//! both versions and the batch.
//!
//! Memory: a second copy of the parameters and both moments in fp32, and of an averaged teacher.

use clawrl_learn::{EntropyControl, TrainSample, mean_divergence};

use super::torch_learner::TorchLearner;
use crate::error::TorchError;
use crate::model::Params;

/// Minimum number of tokens for a divergence, if the batch has as many.
const LEAST_TOKENS: usize = 2048;

/// Of the further tokens of a batch, one in this many is measured: two forward passes over all tokens would cost half an
/// update.
const ONE_IN: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The version whose parameters these are.
    version: u64,
    params: Params,
    first: Params,
    second: Params,
    steps: u64,
    moments_since: u64,
    following: Option<Params>,
    entropy: EntropyControl,
}

impl TorchLearner {
    /// Accepts the present state.
    ///
    /// # Errors
    /// [`TorchError`] if memory is exhausted.
    pub fn accept(&mut self) -> Result<(), TorchError> {
        let Self { params, optimizer, targets, .. } = self;
        match &mut self.accepted {
            Some(accepted) => {
                accepted.params.overwrite(params)?;
                accepted.first.overwrite(&optimizer.first)?;
                accepted.second.overwrite(&optimizer.second)?;
                if let (Some(kept), Some(following)) = (&accepted.following, targets.following()) {
                    kept.overwrite(following)?;
                }
                (accepted.steps, accepted.moments_since) = (optimizer.steps, optimizer.moments_since);
                (accepted.version, accepted.entropy) = (self.parameters_of, self.entropy);
            }
            None => {
                self.accepted = Some(Accepted {
                    version: self.parameters_of,
                    params: params.copy()?,
                    first: optimizer.first.copy()?,
                    second: optimizer.second.copy()?,
                    steps: optimizer.steps,
                    moments_since: optimizer.moments_since,
                    following: targets.following().map(Params::copy).transpose()?,
                    entropy: self.entropy,
                });
            }
        }
        Ok(())
    }

    /// Restores the accepted state (I1). The version number does not change (I2).
    ///
    /// # Errors
    /// [`TorchError::Model`] if no state was accepted.
    pub fn reject(&mut self) -> Result<(), TorchError> {
        let accepted = self.accepted.as_ref().ok_or_else(nothing)?;
        self.params.overwrite(&accepted.params)?;
        self.optimizer.first.overwrite(&accepted.first)?;
        self.optimizer.second.overwrite(&accepted.second)?;
        if let (Some(kept), Some(following)) = (&accepted.following, self.targets.following()) {
            following.overwrite(kept)?;
        }
        self.optimizer.steps = accepted.steps;
        self.optimizer.moments_since = accepted.moments_since;
        (self.parameters_of, self.entropy) = (accepted.version, accepted.entropy);
        Ok(())
    }

    /// Scales the change of the parameters since the accepted state by `share`: 1 keeps all of it, 0 none. Moments stay. An
    /// averaged teacher becomes what it would be after the shorter change.
    ///
    /// # Errors
    /// [`TorchError::Model`] if no state was accepted; others from libtorch.
    pub fn shorten(&mut self, share: f64) -> Result<(), TorchError> {
        let accepted = self.accepted.as_ref().ok_or_else(nothing)?;
        let (from, to) = (accepted.params.flat(), self.params.flat());
        tch::no_grad(|| to.shallow_clone().f_copy_(&from.f_lerp(to, share)?))?;
        if let (Some(kept), Some(following)) = (&accepted.following, self.targets.following()) {
            following.overwrite(kept)?;
            self.targets.follow(&self.params)?;
        }
        Ok(())
    }

    /// Mean divergence of the present parameters from the accepted ones at the trained tokens of these samples, in nats;
    /// not finite if a log-probability is not. Of many tokens a part is measured, spread evenly over the samples.
    ///
    /// # Errors
    /// [`TorchError::Model`] if no state was accepted; others from libtorch.
    pub fn divergence(&self, samples: &[TrainSample]) -> Result<f64, TorchError> {
        let accepted = self.accepted.as_ref().ok_or_else(nothing)?;
        self.divergence_from(&accepted.params, samples)
    }

    /// Divergence from any parameters with the learner's layout.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn divergence_from(&self, other: &Params, samples: &[TrainSample]) -> Result<f64, TorchError> {
        let chosen: Vec<TrainSample> = spread(samples).map(as_plain).collect();
        let by = |params: &Params| Ok::<_, TorchError>(self.score(params, &chosen)?.logprobs);
        let (before, now) = (by(other)?, by(&self.params)?);
        let chosen: Vec<&TrainSample> = chosen.iter().collect();
        Ok(mean_divergence(&chosen, &before, &now))
    }
}

fn nothing() -> TorchError {
    TorchError::Model("no version was accepted that could be gone back to".to_owned())
}

/// Samples at even distances, with about the wanted number of tokens.
fn spread(samples: &[TrainSample]) -> impl Iterator<Item = &TrainSample> {
    let tokens: usize = samples.iter().map(|sample| sample.segment.len()).sum();
    let wanted = LEAST_TOKENS.max(tokens / ONE_IN);
    let stride = (tokens / wanted.max(1)).max(1);
    samples.iter().step_by(stride)
}

/// The sample without candidates, so that only its sampled tokens are scored.
fn as_plain(sample: &TrainSample) -> TrainSample {
    TrainSample { advantages: Vec::new(), teacher: Vec::new(), candidates: Vec::new(), ..sample.clone() }
}
