//! Install folder of the Python peers.

use std::path::PathBuf;

/// Virtual environment of this name in the user's cache folder; it may not exist.
pub(crate) fn peers_folder(name: &str) -> Option<PathBuf> {
    let caches = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let caches = caches.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(caches.join("clawrl/bench").join(name))
}
