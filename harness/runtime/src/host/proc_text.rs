//! Small reads of `/proc` and `/sys`.

use std::fs;
use std::path::Path;

/// The content of a one-line file, without the line feed.
pub(super) fn line(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The content of a file with one number.
pub(super) fn number(path: impl AsRef<Path>) -> Option<u64> {
    line(path)?.parse().ok()
}

/// A number behind a key, as in `MemAvailable: 123 kB`.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}
