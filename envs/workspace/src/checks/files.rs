//! Checks of the workspace's files.

use clawrl_core::Fault;
use clawrl_sandbox::{EntryStat, FileKind, SafeDir, SafeReadError};
use memchr::memmem;
use regex::bytes::Regex;

use super::difference::first_difference;
use super::quote::quote;
use super::verdict::{CheckOutcome, invalid, read_failure, walk_failure};
use super::{CheckLimits, UidMap};

/// Maximum characters shown of an expected text, and of a file's beginning.
const SHOWN: usize = 50;

/// Files, and the limit on reading them.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) workspace: SafeDir,
    pub(super) uid_map: UidMap,
    pub(super) limits: CheckLimits,
}

impl Files {
    pub(super) fn equals(&self, path: &str, expected: &str) -> Result<CheckOutcome, Fault> {
        self.with_content(path, expected.len(), |found| {
            Ok(match first_difference(expected.as_bytes(), found) {
                None => CheckOutcome::pass(format_args!("{} bytes, as expected", found.len())),
                Some(difference) => CheckOutcome::fail(difference),
            })
        })
    }

    pub(super) fn contains(&self, path: &str, text: &str) -> Result<CheckOutcome, Fault> {
        self.with_content(path, text.len(), |found| {
            let wanted = quote(text.as_bytes(), SHOWN);
            Ok(match memmem::find(found, text.as_bytes()) {
                Some(_) => CheckOutcome::pass(format_args!("contains {wanted}")),
                None => {
                    CheckOutcome::fail(format_args!("expected {wanted} in it, found {}", beginning(found)))
                }
            })
        })
    }

    pub(super) fn matches(&self, path: &str, regex: &str) -> Result<CheckOutcome, Fault> {
        let compiled = Regex::new(regex).map_err(|error| invalid(error.to_string().replace('\n', " ")))?;
        self.with_content(path, 0, |found| {
            let wanted = quote(regex.as_bytes(), SHOWN);
            let without_end = found.strip_suffix(b"\n");
            let matched = compiled.find(found).or_else(|| compiled.find(without_end?));
            Ok(match matched {
                Some(text) => {
                    CheckOutcome::pass(format_args!("{} matches {wanted}", quote(text.as_bytes(), SHOWN)))
                }
                None => CheckOutcome::fail(format_args!(
                    "expected a match of {wanted}, found {}",
                    beginning(found)
                )),
            })
        })
    }

    pub(super) fn absent(&self, path: &str) -> Result<CheckOutcome, Fault> {
        match self.workspace.stat(path) {
            Err(SafeReadError::Missing { .. }) => Ok(CheckOutcome::pass("nothing is there")),
            Err(other) => read_failure(&other),
            Ok(EntryStat { kind: FileKind::Regular, size, .. }) => {
                Ok(CheckOutcome::fail(format_args!("expected nothing, found a regular file of {size} bytes")))
            }
            Ok(stat) => Ok(CheckOutcome::fail(format_args!("expected nothing, found {}", stat.kind))),
        }
    }

    pub(super) fn mode(&self, path: &str, mode: u32) -> Result<CheckOutcome, Fault> {
        self.with_stat(path, |stat| {
            let found = stat.mode;
            if found == mode {
                CheckOutcome::pass(format_args!("mode {found:04o}"))
            } else {
                CheckOutcome::fail(format_args!("expected mode {mode:04o}, found {found:04o}"))
            }
        })
    }

    pub(super) fn owner(&self, path: &str, uid: u32) -> Result<CheckOutcome, Fault> {
        self.with_stat(path, |stat| match self.uid_map.inside(stat.uid) {
            Some(found) if found == uid => CheckOutcome::pass(format_args!("owner {uid}")),
            Some(found) => CheckOutcome::fail(format_args!("expected owner {uid}, found {found}")),
            None => CheckOutcome::fail(format_args!(
                "expected owner {uid}, found an owner unknown inside the sandbox (host uid {})",
                stat.uid
            )),
        })
    }

    pub(super) fn tree_hash(&self, path: &str, sha256: &str) -> Result<CheckOutcome, Fault> {
        match self.workspace.tree_hash(path, self.limits.tree) {
            Ok(found) if found.eq_ignore_ascii_case(sha256) => {
                Ok(CheckOutcome::pass(format_args!("hash {found}")))
            }
            Ok(found) => {
                let wanted = sha256.get(..12).unwrap_or(sha256);
                Ok(CheckOutcome::fail(format_args!("expected hash {wanted}…, found {found}")))
            }
            Err(error) => walk_failure(&error),
        }
    }

    /// `expected_len` raises the limit: content that a check expects is read even if it is larger.
    pub(super) fn with_content(
        &self,
        path: &str,
        expected_len: usize,
        judge: impl FnOnce(&[u8]) -> Result<CheckOutcome, Fault>,
    ) -> Result<CheckOutcome, Fault> {
        match self.workspace.read_file(path, self.limits.file_bytes.max(expected_len as u64)) {
            Ok(content) => judge(&content),
            Err(error) => read_failure(&error),
        }
    }

    fn with_stat(
        &self,
        path: &str,
        judge: impl FnOnce(EntryStat) -> CheckOutcome,
    ) -> Result<CheckOutcome, Fault> {
        match self.workspace.stat(path) {
            Ok(EntryStat { kind: FileKind::Symlink, .. }) => {
                read_failure(&SafeReadError::Symlink { path: path.into() })
            }
            Ok(stat) => Ok(judge(stat)),
            Err(error) => read_failure(&error),
        }
    }
}

fn beginning(found: &[u8]) -> String {
    if found.is_empty() {
        return "an empty file".to_owned();
    }
    format!("{} bytes that begin {}", found.len(), quote(found, SHOWN))
}
