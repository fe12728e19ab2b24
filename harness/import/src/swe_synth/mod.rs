//! Software engineering tasks from a Python package: faults are injected into its functions, and its own tests detect
//! them.
//!
//! Y1. The fault of a task makes at least one test fail, leaves most of them passing, makes none hang and hides none;
//! two runs with different hash seeds agree. Y2. The same archive, command, seed and Python give the same suite. Y3. No
//! code of the package runs here: it is read as data, and the caller's [`TestRunner`] runs its tests in a sandbox. Y4.
//! An instruction gives the function, its docstring and the messages of the tests, never the changed line.
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
