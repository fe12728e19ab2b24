//! The entries that a copy lacks; bounded in size.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::FileKind;

/// Maximum number of entries named. The tree's writer chose their number and names: all of them could be gigabytes.
const MAX_NAMED: usize = 100;

/// The number of entries that a copy lacks, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedEntries {
    count: u64,
    first: Vec<Skipped>,
}

/// An entry that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Relative to the source.
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

/// Why an entry was not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// It is a FIFO, a socket or a device.
    Special(FileKind),
    /// This process may not read it. A folder is skipped with its content.
    Unreadable,
}

impl SkippedEntries {
    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the copy is complete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first entries in the order of the walk: all, if there are few.
    #[must_use]
    pub fn named(&self) -> &[Skipped] {
        &self.first
    }

    /// Adds an entry.
    pub fn add(&mut self, path: &Path, reason: SkipReason) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < MAX_NAMED {
            self.first.push(Skipped { path: path.to_owned(), reason });
        }
    }

    /// Combines these with the entries that a later copy of the same tree skipped.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.count = self.count.saturating_add(later.count);
        let size_limit = MAX_NAMED.saturating_sub(self.first.len());
        self.first.extend(later.first.into_iter().take(size_limit));
        self
    }

    /// The same entries under other paths.
    #[must_use]
    pub fn renamed(mut self, name: impl Fn(&Path) -> PathBuf) -> Self {
        for skipped in &mut self.first {
            skipped.path = name(&skipped.path);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_first_are_named() {
        let mut skipped_entries = SkippedEntries::default();
        assert!(skipped_entries.is_empty());
        for index in 0..150 {
            skipped_entries.add(Path::new(&index.to_string()), SkipReason::Unreadable);
        }
        let both = skipped_entries.clone().and(skipped_entries);
        assert_eq!((both.count(), both.named().len(), both.is_empty()), (300, 100, false));
        assert_eq!(both.named()[99].path, Path::new("99"));
        let mut one = SkippedEntries::default();
        one.add(Path::new("a"), SkipReason::Unreadable);
        assert_eq!(one.clone().and(both).named().len(), 100);
        assert_eq!(one.renamed(|path| path.join("b")).named()[0].path, Path::new("a/b"));
    }
}
