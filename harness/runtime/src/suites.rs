//! Suites by path, or by the name of a folder under `tasks`.

use std::path::{Path, PathBuf};

use clawrl_config::{Suite, load_suites};

use crate::error::RuntimeError;
use crate::progress::Progress;

/// Folder of suites, relative to the working directory.
pub const TASKS: &str = "tasks";

/// The path of a suite. A path that does not exist is returned unchanged, so that the error names it.
pub fn suite_path(named: &Path) -> PathBuf {
    let bare = named.components().count() == 1 && named.extension().is_none();
    if bare && !named.exists() && Path::new(TASKS).is_dir() {
        Path::new(TASKS).join(named)
    } else {
        named.to_owned()
    }
}

/// Loads suites by path or name, and reports their warnings.
///
/// # Errors
/// No suite is named, or one is invalid.
pub fn read_suites(named: &[PathBuf], progress: &dyn Progress) -> Result<Vec<Suite>, RuntimeError> {
    if named.is_empty() {
        let help = "name a suite.yaml, its folder, or the name of a folder under ./tasks; \
                    `clawrl new suite my-suite` writes one";
        return Err(RuntimeError::refused("no suite is named").with_help(help));
    }
    let paths: Vec<PathBuf> = named.iter().map(|named| suite_path(named)).collect();
    let suites = load_suites(&paths)?;
    for warning in suites.iter().flat_map(Suite::warnings) {
        progress.file_warning(warning);
    }
    Ok(suites)
}
