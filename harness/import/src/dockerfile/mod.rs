//! Dockerfiles that need no engine: read, and turned into files, setup commands and variables of a sandbox on an
//! unpacked root file system.

mod apply;
mod copy;
mod lines;
mod needs;
mod starts;
mod steps;
mod words;

pub(crate) use apply::{Base, SandboxImage, apply};
pub(crate) use lines::instructions;
pub(crate) use needs::simple_commands;
pub(crate) use starts::{Started, Starts, refuse_starts};
pub(crate) use words::{copied_sources, first_image, needs_buildkit};
