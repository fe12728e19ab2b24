//! An agent on the `openai` SDK, as `ci/setup.sh mcp` installs it.

use std::fs;
use std::path::PathBuf;

use super::house::House;

/// The interpreter with the SDK.
fn python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    cache.unwrap_or_else(home).join("clawrl/mcp/venv/bin/python")
}
