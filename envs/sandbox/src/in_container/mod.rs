//! Programs in a container that an engine made, started by ourselves.
//!
//! The engine makes the container and ends it. Between the two it is not in the way: the shell and every program
//! beside it are started by the spawner, which enters the container's namespaces and control groups and takes on its
//! limits. So a terminal is a terminal of the container's own, whose foreground the kernel tells; a step costs what it
//! costs in our own sandbox; nothing is lost when the engine's connection is; and a program can be killed, which an
//! engine cannot do.
//!
//! E1. What is entered is the process that was meant: by process id, start time, and a mark in its variables.
//! E2. Nothing inside is trusted with a path: the container's root is entered by descriptor, and the kernel resolves
//! every path below it.
//! E3. Killing the first process ends every other one, daemons included; its end is what counts as the end.
//! E4. Files stay readable until the last [`SafeDir`](crate::SafeDir) on them is dropped. Then, and not before, the
//! keeper is dropped, which is the engine's cue to delete them.
//!
//! Needs root and a machine that the container's processes run on. Cancellation: a program that was started by a future
//! that is dropped ends with the container.

mod enter;
mod first_process;
mod root;
mod sandbox;
mod terminal;
mod user;

pub use enter::{RunningContainer, announce, enter};
pub use sandbox::ContainerSandbox;
