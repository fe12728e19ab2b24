//! The files that a pipeline picks up.
//!
//! I1. Files are replaced atomically: written to a temporary file in the same folder, then renamed.
//!
//! Errors: [`OutputError`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{annotations, assessments_json, gates_page, junit, markdown};
use crate::assessment::Assessment;

/// Paths of the outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// For systems of CI.
    pub junit: PathBuf,
    /// For a pull request, and for the summary of a step.
    pub markdown: PathBuf,
    /// For the log of a job of GitHub.
    pub annotations: PathBuf,
    /// For programs.
    pub json: PathBuf,
    /// For people.
    pub page: PathBuf,
}

/// Reason for which outputs could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or folder cannot be written.
    #[error("failed to write {}: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An assessment cannot be JSON.
    #[error("failed to write the assessment as JSON: {0}. This is a bug in ClawRL")]
    NotJson(#[from] serde_json::Error),
}

/// Writes every rendering into this folder, creating it.
///
/// # Errors
/// [`OutputError`]; files written before it stay.
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
        json: write("assessments.json", &assessments_json(gates)?)?,
        junit: write("junit.xml", &junit(gates))?,
        markdown: write("summary.md", &markdown(gates))?,
        annotations: write("annotations.txt", &annotations(gates))?,
        page: write("report.html", &gates_page(gates))?,
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // Removes the incomplete file.
        let _ = fs::remove_file(&beside);
    })
}
