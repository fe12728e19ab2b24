//! Writes assessments as files.

use std::fs;
use std::path::Path;

use clawrl_regression::{Assessment, OutputError, write_outputs};

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Writes all formats to a folder, which is created if necessary.
///
/// # Errors
/// The folder cannot be written to.
pub(super) fn write(folder: &Path, assessments: &[Assessment], text: &str) -> Result<(), Failure> {
    write_outputs(folder, assessments)?;
    let path = folder.join("assessment.txt");
    fs::write(&path, text).map_err(|source| OutputError::Write { path, source }.into())
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NotJson(_) => Self::new(Exit::Internal, error.to_string()),
            _ => Self::with_help(Exit::Results, error.to_string(), "name another folder with --out"),
        }
    }
}
