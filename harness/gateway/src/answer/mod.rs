//! What a policy writes, taken apart as it comes.

mod parser;
mod stops;
mod utf8;

pub use parser::{AnswerParser, AnswerPart, Reads};
pub use stops::StopScanner;
pub use utf8::Utf8Assembly;
