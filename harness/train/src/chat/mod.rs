//! Chat with a model in this process, and learning from it.

mod adapter_router;
mod adapter_trainer;
mod backend;
mod feedback_sample;
mod messages;
mod online_trainer;

pub(super) use adapter_trainer::{AdapterTrainer, Learned, Model, UpdateOutcome};
pub(crate) use backend::embedded_model;
pub(super) use messages::messages;
