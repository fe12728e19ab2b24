//! Data sets of Reasoning Gym: made by its own library, in a Python that has it.
//!
//! R1. The Python of the person runs one program of ours, which reads its request and prints rows; it ends before this
//! does. R2. A set is imported if what gives full marks in its library is what our check asks for.
//!
//! Source: PyPI `reasoning-gym` 0.1.25, whose scorers were read one by one.

mod datasets;
mod options;
mod python;
mod rows;

pub use options::{ReasoningGymDataset, ReasoningGymListing, ReasoningGymOptions};
pub(crate) use rows::{import_rows, listing};
