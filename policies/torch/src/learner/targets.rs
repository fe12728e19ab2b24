//! Target policies beside the trained one: the reference, which limits drift, and the teacher for distillation.
//!
//! I1. The reference never changes. I2. An averaged teacher is updated once for each version, in fp32:
//! theta_T <- decay theta_T + (1 - decay) theta. I3. No gradient flows through a target policy.
//!
//! Source: learning with an exponential moving average as teacher: SDFT, arXiv 2601.19897, section 4. Deviations: of an adapter
//! the factors are averaged, not their product, which no adapter of the rank could hold.

use serde::{Deserialize, Serialize};

use crate::error::TorchError;
use crate::model::Params;

/// Source of the teacher's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Teacher {
    /// The trained parameters at the start of a batch.
    Current,
    /// The moving average of the trained parameters over the versions.
    Ema {
        /// Weight of the old average at each version, below 1.
        decay: f64,
    },
    /// The parameters of the reference.
    Frozen,
    /// A remote teacher: its log-probabilities come with the views of samples.
    Elsewhere,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TargetPolicies {
    reference: Option<Params>,
    following: Option<Following>,
    teacher: Option<Teacher>,
}

#[derive(Debug)]
struct Following {
    decay: f64,
    params: Params,
}

impl TargetPolicies {
    /// `reference` is needed if the loss has a KL term or the teacher is frozen.
    pub(crate) fn new(
        teacher: Option<Teacher>,
        reference: Option<Params>,
        present: &Params,
    ) -> Result<Self, TorchError> {
        let refused = |what: &str| Err(TorchError::Model(what.to_owned()));
        if reference.as_ref().is_some_and(|reference| reference.layout() != present.layout()) {
            return refused("the reference is a model of another shape");
        }
        if let Some(Teacher::Ema { decay }) = teacher
            && !(0.0..1.0).contains(&decay)
        {
            return refused("the decay of a teacher is at least 0 and below 1");
        }
        if teacher == Some(Teacher::Frozen) && reference.is_none() {
            return refused("a frozen teacher needs the parameters of a reference");
        }
        let following = match teacher {
            Some(Teacher::Ema { decay }) => Some(Following { decay, params: present.copy()? }),
            _ => None,
        };
        Ok(Self { reference, following, teacher })
    }

    /// The reference, if there is one.
    pub(crate) fn reference(&self) -> Option<&Params> {
        self.reference.as_ref()
    }

    /// The teacher, if it has local parameters.
    pub(crate) fn teacher<'a>(&'a self, present: &'a Params) -> Option<&'a Params> {
        match self.teacher? {
            Teacher::Current => Some(present),
            Teacher::Ema { .. } => self.following.as_ref().map(|following| &following.params),
            Teacher::Frozen => self.reference.as_ref(),
            Teacher::Elsewhere => None,
        }
    }

    /// Updates the average for a new version (I2).
    pub(crate) fn follow(&mut self, present: &Params) -> Result<(), TorchError> {
        if let Some(Following { decay, params }) = &self.following {
            let _ = tch::no_grad(|| params.flat().shallow_clone().f_lerp_(present.flat(), 1.0 - decay))?;
        }
        Ok(())
    }

    /// The average, which a checkpoint stores.
    pub(crate) fn following(&self) -> Option<&Params> {
        self.following.as_ref().map(|following| &following.params)
    }

    /// Restores the average from a checkpoint, or from the parameters themselves if it stored none.
    pub(crate) fn restore(&mut self, kept: &Params) -> Result<(), TorchError> {
        self.following.as_ref().map_or(Ok(()), |following| following.params.overwrite(kept))
    }
}
