//! Communication between the ranks of a learner.
//!
//! Global normalisers, gradients and decisions go through [`Collective`] even with one rank, so that the learner has one
//! code path.

use tch::Tensor;

use crate::error::TorchError;

/// Sums over all ranks. Every rank calls the same methods in the same order; a call blocks until all ranks have made it.
pub trait Collective: Send {
    /// Number of ranks.
    fn world(&self) -> u32;

    /// This rank, below [`Self::world`].
    fn rank(&self) -> u32;

    /// Replaces the tensor's values by their sums over ranks.
    ///
    /// # Errors
    /// [`TorchError`] when a rank is gone.
    fn sum(&self, tensor: &mut Tensor) -> Result<(), TorchError>;

    /// Sums of numbers over ranks: counts, weights, losses.
    ///
    /// # Errors
    /// [`TorchError`] when a rank is gone.
    fn sum_numbers(&self, numbers: &mut [f64]) -> Result<(), TorchError>;
}

/// One rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Collective for Alone {
    fn world(&self) -> u32 {
        1
    }

    fn rank(&self) -> u32 {
        0
    }

    fn sum(&self, _tensor: &mut Tensor) -> Result<(), TorchError> {
        Ok(())
    }

    fn sum_numbers(&self, _numbers: &mut [f64]) -> Result<(), TorchError> {
        Ok(())
    }
}
