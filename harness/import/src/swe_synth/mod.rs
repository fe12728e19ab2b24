//! Software engineering tasks from a Python package: faults put into its functions, found again by its own tests.
//!
//! Y1. A task's fault makes at least one test fail, leaves most of them passing, hangs nothing and hides no test; two runs
//! with different hash seeds say so alike. Y2. The same archive, command, seed and Python give the same suite. Y3. Nothing
//! of the package is run here: it is read as data, and its tests are run by the [`TestRunner`] of the caller, in a sandbox.
//! Y4. What an instruction says is the function, its description and what the tests say, and never the line.
//!
//! Source: the simple API of package indexes in JSON (PEP 691); mutation operators as in the literature on mutation
//! testing (comparison, connective, arithmetic and constant replacement, statement deletion, ...).

mod candidate;
mod distribution;
mod edit;
mod make;
mod options;
mod suite;
mod trial;
mod wording;

pub(crate) use make::make;
pub use options::{SynthOptions, SynthSource};
pub use trial::{TestEnd, TestFile, TestJob, TestRun, TestRunner};
