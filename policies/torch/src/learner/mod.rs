//! The learner: batches in, parameters out.

mod accepted;
mod backward;
mod beforehand;
mod checkpoint;
mod collective;
mod direct;
mod head;
mod micro_batch;
mod optimizer;
mod publisher;
mod step;
mod targets;
mod torch_learner;

pub use backward::Activations;
pub use checkpoint::{Branch, Checkpoint, CheckpointFacts, Checkpoints, Latest, Retention};
pub use collective::{Alone, Collective};
pub use optimizer::{Decay, OptimizerConfig};
pub use publisher::{AdapterPublisher, Publisher, Unpublished};
pub use targets::Teacher;
pub use torch_learner::{Base, LearnerConfig, LearnerSetup, TorchLearner};
