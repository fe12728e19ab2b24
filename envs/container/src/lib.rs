//! Containers of the machine's engines as sandboxes.
//!
//! The engine is asked for images, for a container, and for its removal. Everything between is done without it, by
//! [`clawrl_sandbox::enter`]: the reasons are there. Where this process cannot enter containers, because the engine is on
//! another machine or because it is not root, a program of ours beside the engine does: [`clawrl_node`].
//!
//! C1. A container has no network, no capability beyond [`capabilities`], no new privileges, and limits of memory,
//! processor and processes, unless its task spelled out otherwise. C2. Whatever is made carries the run, the process that
//! made it and the boot it was made in, so that a later start can tell what a dead one left. C3. An image is fetched or
//! built once, however many wait for it, and whoever stops waiting does not stop it. C4. A container is removed when
//! nobody can look at its files any more; shutting down removes all of a run. C5. A workspace that is judged or copied is a
//! folder of its own, and none of it is in a volume. C6. An image that is removed for a budget was fetched or built by us, and
//! nothing needs it.
//!
//! Errors: provider faults that name the image, or what the engine lacks. Cancellation: dropping a start loses nothing; what
//! was made is removed.

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
