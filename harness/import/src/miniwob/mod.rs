//! MiniWoB++: pages of a Python package, each of which states a task and grades it.
//!
//! W1. Every page becomes one task, and every value of its `episode` one instance: it seeds the page's `Math.random`,
//! so all attempts of a group see the same page. W2. The suite holds the files that its pages need, and no others. W3.
//! The pages are served unchanged: the setup lifts their time limits.
//!
//! Source: the wheel of the package `miniwob`, <https://miniwob.farama.org>.

mod needed;
mod options;
mod package;
mod suite;
mod traits;

pub use options::{MINIWOB_VERSION, MiniwobOptions, MiniwobSource};
pub(crate) use suite::make;
