//! From what a person calls a suite to its path: a path, or the name of a folder under `tasks`.

use std::path::{Path, PathBuf};

/// Folder of suites, seen from where `clawrl` is started.
pub(crate) const TASKS: &str = "tasks";

/// The path of a suite. What is not there stays as it would have been found, so that the error names it.
pub(crate) fn find(named: &Path) -> PathBuf {
    let bare = named.components().count() == 1 && named.extension().is_none();
    if bare && !named.exists() && Path::new(TASKS).is_dir() {
        Path::new(TASKS).join(named)
    } else {
        named.to_owned()
    }
}
