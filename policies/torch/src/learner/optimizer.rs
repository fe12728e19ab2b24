//! The optimizer: gradient norm, clipping, learning-rate schedule, AdamW over the flat buffer.
//!
//! I1. Weight decay applies to matrices, not to norms. I2. Steps are made on finite gradients only; the caller checks
//! [`Params::norm`] first.
//!
//! Source: AdamW as in [`clawrl_torch_shim`]; clipping as in `torch.nn.utils.clip_grad_norm_`.

use std::num::NonZeroU64;
use std::sync::Arc;

use clawrl_torch_shim::{AdamwParameter, AdamwSettings, fused_adamw};
use serde::{Deserialize, Serialize};
use tch::Device;

use super::backward::Gradients;
use crate::error::TorchError;
use crate::model::{ParamLayout, Params, stretches};

/// Warm-up steps after moments were lost: the first new moments are poor estimates of curvature.
const REWARM_STEPS: u64 = 10;

/// Keeps the divisor of clipping above zero.
const NORM_EPSILON: f64 = 1e-6;

/// Settings of an optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimizerConfig {
    /// Highest step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// Added to the divisor.
    pub epsilon: f64,
    /// Gradients of a larger norm are scaled to it.
    pub max_grad_norm: f64,
    /// Steps in which the learning rate rises from 0.
    pub warm_up_steps: u64,
    /// After the warm-up the learning rate falls along a cosine to a fraction; `None` keeps it.
    pub decay: Option<Decay>,
}

/// Where a falling learning rate ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decay {
    /// Number of the last step.
    pub total_steps: u64,
    /// Fraction of the highest learning rate at that step.
    pub final_fraction: f64,
}

impl OptimizerConfig {
    /// Learning rate of step `step`, counted from 1.
    #[must_use]
    pub fn learning_rate_at(&self, step: u64) -> f64 {
        if step <= self.warm_up_steps {
            return self.learning_rate * step as f64 / self.warm_up_steps as f64;
        }
        let Some(decay) = self.decay else { return self.learning_rate };
        let span = decay.total_steps.saturating_sub(self.warm_up_steps).max(1) as f64;
        let done = ((step - self.warm_up_steps) as f64 / span).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.learning_rate * (decay.final_fraction + (1.0 - decay.final_fraction) * cosine)
    }
}

/// Moments and the number of steps made.
#[derive(Debug)]
pub(crate) struct Optimizer {
    pub(crate) config: OptimizerConfig,
    pub(crate) first: Params,
    pub(crate) second: Params,
    pub(crate) steps: u64,
    /// Number of steps before the moments were reset to zero: 0, unless training resumed from a checkpoint without moments.
    pub(crate) moments_since: u64,
}

impl Optimizer {
    pub(crate) fn new(
        config: OptimizerConfig,
        layout: &Arc<ParamLayout>,
        device: Device,
    ) -> Result<Self, TorchError> {
        let zeros = || Params::zeros(Arc::clone(layout), device);
        Ok(Self { config, first: zeros()?, second: zeros()?, steps: 0, moments_since: 0 })
    }

    /// Continues with new moments after `steps` steps whose moments are lost.
    pub(crate) fn go_on_without_moments(&mut self, steps: u64) -> Result<(), TorchError> {
        for moment in [&self.first, &self.second] {
            let _ = tch::no_grad(|| moment.flat().shallow_clone().f_zero_())?;
        }
        self.steps = steps;
        self.moments_since = steps;
        Ok(())
    }

    /// Learning rate of the next step.
    fn learning_rate(&self) -> f64 {
        let planned = self.config.learning_rate_at(self.steps + 1);
        if self.moments_since == 0 {
            return planned;
        }
        let since = self.steps + 1 - self.moments_since;
        planned * (since as f64 / REWARM_STEPS as f64).min(1.0)
    }

    /// One step on gradients of this norm. Scales the gradients in place.
    pub(crate) fn step(
        &mut self,
        params: &Params,
        gradients: &Gradients,
        norm: f64,
    ) -> Result<(), TorchError> {
        let scale = self.config.max_grad_norm / (norm + NORM_EPSILON);
        if scale < 1.0 {
            let _ = gradients.params.flat().shallow_clone().f_mul_scalar_(scale)?;
        }
        let learning_rate = self.learning_rate();
        let settings = |weight_decay: f64| AdamwSettings {
            learning_rate,
            beta1: self.config.beta1,
            beta2: self.config.beta2,
            weight_decay,
            epsilon: self.config.epsilon,
        };
        let decayed = params.layout().decayed();
        let rest = params.layout().numel() - decayed;
        let parts = [(0, decayed, self.config.weight_decay), (decayed, rest, 0.0)];
        // In parts, because GPU kernels count the elements of a call in 32 bits.
        let parts = parts.into_iter().flat_map(|(start, length, weight_decay)| {
            stretches(start, length).map(move |(start, length)| (start, length, weight_decay))
        });
        for (start, length, weight_decay) in parts {
            let part = |of: &Params| of.flat().f_narrow(0, start, length);
            let (param, grad) = (part(params)?, part(&gradients.params)?);
            let (exp_avg, exp_avg_sq) = (part(&self.first)?, part(&self.second)?);
            let parameter =
                AdamwParameter { param: &param, grad: &grad, exp_avg: &exp_avg, exp_avg_sq: &exp_avg_sq };
            let update = NonZeroU64::MIN.saturating_add(self.steps - self.moments_since);
            fused_adamw(&[parameter], update, &settings(weight_decay))?;
        }
        self.steps += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_rises_then_falls() {
        let config = OptimizerConfig {
            learning_rate: 1.0,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 10,
            decay: Some(Decay { total_steps: 110, final_fraction: 0.1 }),
        };
        let check = |step: u64, expected: f64| {
            let got = config.learning_rate_at(step);
            assert!((got - expected).abs() < 1e-12, "step {step}: {got}, not {expected}");
        };
        check(1, 0.1);
        check(10, 1.0);
        check(60, 0.55);
        check(110, 0.1);
        check(1000, 0.1);
        assert_eq!(OptimizerConfig { decay: None, warm_up_steps: 0, ..config }.learning_rate_at(1), 1.0);
    }

    #[test]
    fn the_learning_rate_rises_anew_where_moments_were_lost() {
        let config = OptimizerConfig {
            learning_rate: 1.0,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 0,
            decay: Some(Decay { total_steps: 100, final_fraction: 0.0 }),
        };
        let layout = Arc::new(ParamLayout::new(crate::model::ModelConfig::tiny(64, 3)));
        let mut optimizer = Optimizer::new(config, &layout, Device::Cpu).unwrap();
        assert_eq!(optimizer.learning_rate(), config.learning_rate_at(1));
        let _ = optimizer.first.flat().shallow_clone().f_fill_(0.5).unwrap();
        let _ = optimizer.second.flat().shallow_clone().f_fill_(0.5).unwrap();
        optimizer.go_on_without_moments(50).unwrap();
        // After a rollback the old moments belong to the rejected state.
        assert_eq!((optimizer.first.norm().unwrap(), optimizer.second.norm().unwrap()), (0.0, 0.0));
        let check = |optimizer: &Optimizer, share: f64| {
            let expected = config.learning_rate_at(optimizer.steps + 1) * share;
            assert!((optimizer.learning_rate() - expected).abs() < 1e-12, "step {}", optimizer.steps);
        };
        check(&optimizer, 0.1);
        optimizer.steps = 54;
        check(&optimizer, 0.5);
        optimizer.steps = 80;
        check(&optimizer, 1.0);
    }
}
