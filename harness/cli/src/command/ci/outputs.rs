//! What a gate says, as files.

use std::fs;
use std::path::Path;

use clawrl_regression::Assessment;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Writes all of them into a folder, which is made if it is not there.
///
/// # Errors
/// The folder cannot be written to.
pub(super) fn write(folder: &Path, assessment: &Assessment, text: &str) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(assessment)
        .map_err(|error| Failure::new(Exit::Internal, format!("the assessment is no JSON: {error}")))?;
    let files = [("assessment.json", json + "\n"), ("assessment.txt", text.to_owned())];
    let written = fs::create_dir_all(folder)
        .and_then(|()| files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text)));
    written.map_err(|error| {
        let message = format!("cannot write into {}: {error}", folder.display());
        Failure::with_help(Exit::Results, message, "name another folder with --out")
    })
}
