//! The strength of an adaptive control, which follows a measurement of each update.
//!
//! I1. The strength is between 0 and its maximum. It is 0 until the figure leaves its bounds, which are relative to the figure of
//! the first update. It rises by a tenth of the maximum with each update outside of the bounds, and falls as fast with each inside.
//!
//! Pure; nothing to cancel.

use serde::{Deserialize, Serialize};

/// Updates outside of the bounds until the strength reaches its maximum.
const STEPS: u32 = 10;

/// The current state of a control: part of the checkpoint of a training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ramp {
    /// The figure of the first update that had one.
    first: Option<f64>,
    /// Current strength in steps, from 0 to [`STEPS`].
    steps: u32,
}

impl Ramp {
    /// The figure of the first update; `None` before the first measurement.
    pub(crate) fn first(&self) -> Option<f64> {
        self.first
    }

    /// The current strength, at most `most`.
    pub(crate) fn strength(&self, most: f64) -> f64 {
        most * f64::from(self.steps) / f64::from(STEPS)
    }

    /// Records an update with this figure. `is_outside` gets it and the first figure, and decides whether it is out of bounds.
    pub(crate) fn after(&mut self, figure: f64, is_outside: impl Fn(f64, f64) -> bool) {
        let first = *self.first.get_or_insert(figure);
        self.steps = if is_outside(figure, first) {
            (self.steps + 1).min(STEPS)
        } else {
            self.steps.saturating_sub(1)
        };
    }
}
