//! What a policy writes, taken apart as it comes.

mod stops;
mod utf8;

pub use stops::StopScanner;
pub use utf8::Utf8Assembly;
