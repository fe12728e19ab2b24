//! Harbor task folders, `schema_version` 1.0 to 1.4, and the datasets and registries that list them.

mod dataset;
mod digest;
mod environment;
mod healthcheck;
mod keys;
mod locate;
mod network;
mod registry;
mod task;
mod verifier;

pub(crate) use keys::KEYS;
pub(crate) use locate::{Located, locate, located};
pub(crate) use task::{document, look_around, read_document};
