//! Where the pages are, and what becomes of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The version that is imported where none is named.
pub const MINIWOB_VERSION: &str = "1.1.0";

/// Where the package is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MiniwobSource {
    /// In the package index that pip uses, in this version.
    Index(String),
    /// A wheel, or a folder: an unpacked wheel, the package in it, or its folder `html`.
    Path(PathBuf),
}

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct MiniwobOptions {
    /// The package.
    pub source: MiniwobSource,
    /// Names of the pages, such as `click-button`; all of them if empty.
    pub families: Vec<String>,
    /// Episodes of each family.
    pub episodes: usize,
    /// Families with a solver, which becomes their oracle.
    pub solved: BTreeSet<String>,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// The Python that reads the wheel.
    pub python: PathBuf,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt.
    pub max_turns: u32,
}
