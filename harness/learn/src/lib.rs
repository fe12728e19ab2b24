//! What is learned from, as pure arithmetic over slices: segments and masks, advantages, losses with their
//! derivatives, staleness, the forming of batches.
//!
//! Knows the words of `clawrl-core` and nothing else of ours: no tensor, no file, no clock, no thread. What runs on
//! libtorch asks this crate for the derivative of the loss by each log-probability, so the arithmetic is here once.

mod batch;
mod learner;
mod segment;

pub use batch::{Episode, Group, Objective, TrainBatch, TrainSample};
pub use learner::{LearnError, Learner, UpdateReport};
pub use segment::Segment;
