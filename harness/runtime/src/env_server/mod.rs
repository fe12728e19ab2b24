//! An attempt that another program drives, by the protocol that environments of others speak to us.

mod attempt;
mod lines;
mod message;
mod serve;

pub use attempt::Driven;
pub(crate) use lines::MOST;
pub(crate) use message::{Asked, Refusal, Request, answer, begun, closed, images, read, stepped};
pub use serve::{Served, serve};
