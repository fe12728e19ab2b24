//! Chat with a model in this process, and learning from it.

mod backend;
mod feedback_sample;
mod messages;
mod pupil;
mod residents;
mod tutor;

pub(crate) use backend::embedded_model;
pub(super) use messages::messages;
pub(super) use pupil::{Fate, Learned, Model, Pupil};
