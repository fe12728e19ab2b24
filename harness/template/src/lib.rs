//! Templates with limits: minijinja with bounds on the time and memory of a rendering.
//!
//! Suites and models' chat templates come from strangers, and a template is a program: loops may be nested, and a text may double
//! itself. Here a template that uses too much is an error with its position.
//!
//! I1. A rendering ends: after a number of steps, or after a time that no benign template needs. I2. The size of a value,
//! including everything in it, is limited, and so is the sum over all values of a rendering: memory is bounded. I3. Recursion is
//! limited: neither expressions nor values are nested too deeply, and no value contains itself. I4. Within the limits a template renders
//! as in minijinja, with one exception: no value contains a namespace, because a namespace may grow after the value was weighed.
//!
//! The engine can limit steps ("fuel"), but not sizes, and one step may double a text. So a template is compiled from a copy of its
//! syntax tree in which our filters wrap everything that makes a value. This needs the engine's internal interface;
//! its version is pinned in the workspace's `Cargo.toml`. Filters of the engine whose results may be much larger than their arguments
//! check the size first. Pure, except for the clock of I1.

mod environment;
mod growth;
mod meter;
mod nesting;
mod program;
mod weighed;

pub use environment::{bound, bounded_methods};
pub use meter::{Exceeded, VALUE_BYTES, bytes_of};
pub use program::Program;
