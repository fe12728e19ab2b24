//! Dockerfiles without an engine: their instructions become files, setup commands and variables of a sandbox on an
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
pub(crate) use starts::{StartRules, StartedPrograms, refuse_starts};
pub(crate) use words::{copied_sources, first_image, needs_buildkit};
