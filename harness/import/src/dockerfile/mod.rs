//! Dockerfiles that need no engine: read, and turned into files, setup commands and variables of a sandbox on an
//! unpacked root file system.

mod apply;
mod copy;
mod ignore;
mod lines;
mod needs;
mod steps;
mod words;

pub(crate) use apply::{Base, SandboxImage, apply};
pub(crate) use ignore::IgnoreRules;
pub(crate) use lines::instructions;
pub(crate) use words::{copied_sources, first_image, needs_buildkit};
