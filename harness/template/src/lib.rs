//! Templates that end: minijinja with bounds on what one rendering may take.
//!
//! Suites and models' chat templates come from strangers, and a template is a program: loops may be nested, and a text may double
//! itself. Here a template that takes too much is an error with its place.
//!
//! I1. A rendering ends: after a number of steps, or after a time that no template needs which is not meant to do harm. I2. A value has
//! a bound, with everything in it, and so has the sum of all that a rendering makes: memory is bounded. I3. Nothing recurses without a
//! bound: neither expressions nor values are nested too deeply, and no value contains itself. I4. What stays within the bounds renders
//! as minijinja renders it, but for one thing: no value holds a namespace, since a namespace may still grow when the value was weighed.
//!
//! The engine can bound steps ("fuel"), but not sizes, and one step may double a text. So a template is compiled from a copy of its
//! syntax tree in which filters of ours stand around everything that makes a value. For this the engine's internal interface is needed;
//! its version is pinned in the workspace's `Cargo.toml`. Filters of the engine whose results may be much larger than their arguments
//! look at the size first. Pure, except for the clock of I1.

mod environment;
mod growth;
mod meter;
mod nesting;
mod program;
mod weighed;

pub use environment::{bound, bounded_methods};
pub use meter::{Exceeded, VALUE_BYTES, bytes_of};
pub use program::Program;
