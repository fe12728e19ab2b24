//! The last accepted state of a learner, to go back to: parameters, moments, what a teacher averages, and where a bonus stands.
//!
//! I1. What was gone back to is, bit for bit, what was accepted; updates after it are those of a learner that never made the
//! rejected ones, but for their numbers. I2. Numbers of versions only rise: a rejected one stays used. I3. Whoever never accepts
//! anything pays nothing. I4. How far a version is from the accepted one is a function of both and the batch.
//!
//! Memory: parameters and both moments once more, in fp32, and a following teacher once more.

use clawrl_learn::{EntropyControl, TrainSample, mean_divergence};

use super::torch_learner::TorchLearner;
use crate::error::TorchError;
use crate::model::Params;

/// Least tokens that a divergence is measured at, as far as there are as many.
const LEAST_TOKENS: usize = 2048;

/// Of the tokens of a batch beyond that, one in so many is measured at: two forward passes over all of them would be as dear as half an update.
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
    /// Takes the present state for the accepted one.
    ///
    /// # Errors
    /// [`TorchError`] when there is no memory for it.
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

    /// Goes back to the accepted state (I1). The version stays what it is (I2).
    ///
    /// # Errors
    /// [`TorchError::Model`] when nothing was accepted.
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

    /// Goes back to this share of the way that the parameters have come from the accepted ones: 1 for all of it, 0 for none. Moments stay; what a
    /// teacher averages is what it would be, had the way been no longer.
    ///
    /// # Errors
    /// [`TorchError::Model`] when nothing was accepted; others from libtorch.
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

    /// How far the present parameters are from the accepted ones, at trained tokens of these samples, nats: the mean, or no
    /// number where one of them gives none. Of many tokens some are looked at, evenly spread over the samples.
    ///
    /// # Errors
    /// [`TorchError::Model`] when nothing was accepted; others from libtorch.
    pub fn divergence(&self, samples: &[TrainSample]) -> Result<f64, TorchError> {
        let accepted = self.accepted.as_ref().ok_or_else(nothing)?;
        self.divergence_from(&accepted.params, samples)
    }

    /// The same from any parameters that are as the learner's are.
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

/// Samples at even distances, with about as many tokens as are to be looked at.
fn spread(samples: &[TrainSample]) -> impl Iterator<Item = &TrainSample> {
    let tokens: usize = samples.iter().map(|sample| sample.segment.len()).sum();
    let wanted = LEAST_TOKENS.max(tokens / ONE_IN);
    let stride = (tokens / wanted.max(1)).max(1);
    samples.iter().step_by(stride)
}

/// Scored at its sampled tokens alone.
fn as_plain(sample: &TrainSample) -> TrainSample {
    TrainSample { advantages: Vec::new(), teacher: Vec::new(), candidates: Vec::new(), ..sample.clone() }
}
