//! Options of an import of MiniWoB++.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The version that is imported by default.
pub const MINIWOB_VERSION: &str = "1.1.0";

/// Where the package comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MiniwobSource {
    /// This version, from the package index that pip uses.
    Index(String),
    /// A wheel or a folder: an unpacked wheel, the package in it, or its folder `html`.
    Path(PathBuf),
}

/// Which pages to import, and how.
#[derive(Debug, Clone)]
pub struct MiniwobOptions {
    /// The package.
    pub source: MiniwobSource,
    /// Names of the pages, such as `click-button`; all if empty.
    pub families: Vec<String>,
    /// Episodes of each family.
    pub episodes: usize,
    /// Families with a solver, which becomes their oracle.
    pub solved: BTreeSet<String>,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// The Python that reads the wheel.
    pub python: PathBuf,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt.
    pub max_turns: u32,
}
