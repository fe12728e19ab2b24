//! Parsing of a policy's output.

mod stops;
mod utf8;

pub use stops::StopScanner;
pub use utf8::Utf8Assembly;
