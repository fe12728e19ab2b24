//! Loops over the rows of a step that would take many small calls of libtorch.
//!
//! I1. The result of a row depends on that row, its keys and values, and the weights, never on other rows.
//! I2. Every sum has a fixed order: [`LANES`] partial sums over neighbouring elements, then from the first lane to the
//! last.

mod attention;
mod elementwise;
mod lanes;
mod softmax;

pub(super) use attention::AttendRow;
pub(super) use elementwise::AddRmsNorm;
pub(crate) use elementwise::{GatedUnit, NormRotate, RmsNorm, inverse_root};
pub(crate) use lanes::{LANES, dot, exp, largest, total};
pub(super) use softmax::Softmax;
