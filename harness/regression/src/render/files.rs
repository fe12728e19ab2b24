//! The files that a pipeline picks up, and the summary of a step of GitHub.
//!
//! I1. A file is there whole, or as it was before: it is written beside its place and renamed. I2. A summary is added to what the step has
//! already, and never makes the step's file too large for GitHub.
//!
//! Errors: [`OutputError`].

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{html, json, junit, markdown};
use crate::assessment::Assessment;

/// Bytes that GitHub takes as the summary of a step.
const MOST_SUMMARY_BYTES: u64 = 1 << 20;

/// Where the outputs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// For systems of CI.
    pub junit: PathBuf,
    /// For a pull request.
    pub markdown: PathBuf,
    /// For programs.
    pub json: PathBuf,
    /// For people.
    pub page: PathBuf,
}

/// Why outputs could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An assessment cannot be JSON.
    #[error("the assessment cannot be written as JSON: {0}. This is a bug in the program")]
    NotJson(#[from] serde_json::Error),
}

/// Writes every rendering into this folder, which is made.
///
/// # Errors
/// [`OutputError`]; what was written before stays.
pub fn write_outputs(folder: &Path, gates: &[Assessment]) -> Result<Outputs, OutputError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OutputError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        replace(&path, text).map_err(failed(&path))?;
        Ok::<PathBuf, OutputError>(path)
    };
    Ok(Outputs {
        json: write("assessment.json", &json(gates)?)?,
        junit: write("junit.xml", &junit(gates))?,
        markdown: write("summary.md", &markdown(gates))?,
        page: write("report.html", &html::page(gates))?,
    })
}

/// Adds Markdown to the summary of a step, the file that `GITHUB_STEP_SUMMARY` names; false where the step has no room for it.
///
/// # Errors
/// [`OutputError::Write`].
pub fn append_summary(path: &Path, markdown: &str) -> Result<bool, OutputError> {
    let add = || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let begun = file.metadata()?.len();
        let text = format!("{}{markdown}", if begun > 0 { "\n" } else { "" });
        if begun + text.len() as u64 > MOST_SUMMARY_BYTES {
            return Ok(false);
        }
        file.write_all(text.as_bytes()).map(|()| true)
    };
    add().map_err(|source| OutputError::Write { path: path.to_owned(), source })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // Half a file helps nobody.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i2_summaries_are_added_while_there_is_room() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("summary");
        assert!(append_summary(&path, "one\n").unwrap());
        assert!(append_summary(&path, "two\n").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n\ntwo\n");
        assert!(!append_summary(&path, &"x".repeat(1 << 20)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n\ntwo\n");
        let error = append_summary(&place.path().join("no/such"), "x").unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
    }
}
