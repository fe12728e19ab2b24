//! Integration tests of the crate, one binary.

mod diagnostics;
mod plans;
