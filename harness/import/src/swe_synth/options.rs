//! What tasks are made from, and how.

use std::path::PathBuf;

/// A package's source distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SynthSource {
    /// From the package index that pip uses.
    Package {
        /// Its name.
        name: String,
        /// Exactly this version.
        version: String,
    },
    /// An archive that is there: `NAME-VERSION.tar.gz`.
    Archive(PathBuf),
}

impl SynthSource {
    /// From `NAME==VERSION`.
    ///
    /// # Errors
    /// What is expected.
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

/// What to make tasks from, and how.
#[derive(Debug, Clone)]
pub struct SynthOptions {
    /// The packages.
    pub sources: Vec<SynthSource>,
    /// The suite's folder, which is made.
    pub output: PathBuf,
    /// The Python that reads archives and syntax trees.
    pub python: PathBuf,
    /// The command that runs the tests, in the root of the package.
    pub test: String,
    /// Who reads what it prints, as a suite calls it.
    pub parser: String,
    /// By which faults are drawn.
    pub seed: u64,
    /// Tasks of each package; as many as there are if there is none.
    pub limit: Option<usize>,
    /// Whether an imported suite at `output` is replaced.
    pub force: bool,
    /// Turns of an attempt.
    pub max_turns: u32,
}
