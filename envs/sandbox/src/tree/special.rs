//! FIFOs and sockets in a tree.

use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::bounds::Budget;
use super::walk::{Entry, Visitor, walk};
use super::{TreeBounds, TreeError};
use crate::{FileKind, SafeDir, SafeReadError};

/// The first FIFO or socket of a tree; top-level names in `without` are skipped. Devices do not count: they cannot be
/// opened on the mounts used here. Unreadable folders are skipped. Blocks.
pub(crate) fn special_file(
    root: &SafeDir,
    bounds: TreeBounds,
    without: &[&str],
) -> Result<Option<(PathBuf, FileKind)>, TreeError> {
    let mut search = Search { without, found: None };
    walk(root, Path::new("."), bounds, &mut search)?;
    Ok(search.found)
}

struct Search<'a> {
    without: &'a [&'a str],
    found: Option<(PathBuf, FileKind)>,
}

impl Visitor for Search<'_> {
    fn passes_over(&self, path: &[u8]) -> bool {
        self.found.is_some() || self.without.iter().any(|name| name.as_bytes() == path)
    }

    fn enter(&mut self, _: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        Ok(())
    }

    fn leaf(&mut self, entry: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        if matches!(entry.kind, FileKind::Fifo | FileKind::Socket) {
            self.found.get_or_insert_with(|| (entry.path.to_owned(), entry.kind));
        }
        Ok(())
    }

    fn leave(&mut self, _: &Stat, _: &Path) -> Result<(), TreeError> {
        Ok(())
    }

    fn unreadable(&mut self, _: &Path, _: SafeReadError) -> Result<(), TreeError> {
        Ok(())
    }
}
