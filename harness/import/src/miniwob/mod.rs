//! MiniWoB++: pages of a Python package that ask for something, and grade it themselves.
//!
//! W1. Every page is one task, and every value of its `episode` one page to be solved: `Math.random` of the page is seeded
//! by it, so that all attempts of a group see the same, and other instances see others. W2. What a page needs comes along,
//! what no chosen page names does not. W3. The pages are served as they are: time limits are lifted by what prepares them.
//!
//! Source: the wheel of the package `miniwob`, <https://miniwob.farama.org>.

mod needed;
mod options;
mod package;
mod suite;
mod traits;

pub use options::{MINIWOB_VERSION, MiniwobOptions, MiniwobSource};
pub(crate) use suite::make;
