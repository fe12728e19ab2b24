//! Sandboxes in containers of the machine's container engines.
//!
//! The engine provides images, creates a container, and removes it. Everything in between is done without it, by
//! [`clawrl_sandbox::enter`], which documents the reasons. If this process cannot enter containers, because the engine
//! is on another machine or the process is not root, a program beside the engine does so: [`clawrl_node`].
//!
//! C1. A container has no network, no capability beyond [`capabilities`], no new privileges, and limits of memory,
//! processor and processes, unless its task says otherwise.
//! C2. Everything created is labelled with the run, the process and the boot, so that a later start can identify what a
//! dead process left.
//! C3. An image is pulled or built once, however many callers wait for it, and a caller that stops waiting does not
//! stop it.
//! C4. A container is removed when its files can no longer be read; shutting down removes all containers of a run.
//! C5. A workspace that is graded or copied is a folder of its own, and no part of it is in a volume.
//! C6. An image that is removed for a budget was pulled or built by ClawRL, and nothing needs it.
//!
//! Errors: provider faults that name the image, or what the engine lacks. Cancellation: dropping a start loses nothing;
//! what was created is removed.

mod backend;
mod build;
pub mod capabilities;
mod container;
mod engine;
mod engine_restart;
mod engines;
mod image;
mod image_facts;
mod image_gc;
mod labels;
mod layers;
mod ledger;
mod node;
mod sweep;
mod tcp;

pub use backend::{ContainerBackend, ContainerConfig};
pub use engine::{DEFAULT_SOCKET, EngineAccess, EngineReport, probe_engine, probe_engines};
pub use image_gc::{EvictedImages, ImageRetention};
pub use ledger::LedgerError;
pub use sweep::{ContainerSweep, sweep_containers};
