//! Programs in a container that a container engine made, started without the engine.
//!
//! The engine creates the container and ends it. In between it is not involved: the spawner starts the shell and every
//! other program by entering the container's namespaces and control groups and applying its limits. The advantages: the
//! terminal belongs to the container, so the kernel reports its foreground group; a step costs the same as in a
//! bubblewrap sandbox; a lost connection to the engine loses nothing; and single programs can be killed, which an
//! engine cannot do.
//!
//! E1. The process that is entered is verified by process id, start time, and a mark in its environment.
//! E2. No path from inside is trusted: the container's root is opened by descriptor, and the kernel resolves every path
//! below it.
//! E3. Killing the first process ends every other one, daemons included; its end counts as the container's end.
//! E4. Files stay readable until the last [`SafeDir`](crate::SafeDir) on them is dropped. Only then is `keep_alive`
//! dropped, which lets the engine delete them.
//!
//! Needs root, and a machine that runs the container's processes. Cancellation: a program whose starting future is
//! dropped ends with the container.

mod enter;
mod first_process;
mod root;
mod sandbox;
mod terminal;
mod user;

pub use enter::{RunningContainer, announce, enter};
pub use sandbox::ContainerSandbox;
