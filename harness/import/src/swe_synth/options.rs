//! Options for generating tasks from packages.

use std::path::PathBuf;

/// The source distribution of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SynthSource {
    /// From the package index that pip uses.
    Package {
        /// Its name.
        name: String,
        /// Its exact version.
        version: String,
    },
    /// A local archive: `NAME-VERSION.tar.gz`.
    Archive(PathBuf),
}

impl SynthSource {
    /// Parses `NAME==VERSION`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
        };
        match text.split_once("==") {
            Some((name, version)) if allowed(name) && allowed(version) => {
                Ok(Self::Package { name: name.to_owned(), version: version.to_owned() })
            }
            _ => Err("write a package and its version: `NAME==VERSION`".to_owned()),
        }
    }
}

/// Which packages to use, and how.
#[derive(Debug, Clone)]
pub struct SynthOptions {
    /// The packages.
    pub sources: Vec<SynthSource>,
    /// Folder of the new suite, which is created.
    pub output: PathBuf,
    /// The Python that reads archives and syntax trees.
    pub python: PathBuf,
    /// The command that runs the tests, in the root of the package.
    pub test: String,
    /// The parser of its output, as a suite names it.
    pub parser: String,
    /// Seed of the order of faults.
    pub seed: u64,
    /// Maximum tasks of each package; `None` for all.
    pub limit: Option<usize>,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Maximum turns of an attempt.
    pub max_turns: u32,
}
