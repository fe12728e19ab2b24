//! The original metadata of a tree that was copied from elsewhere.
//!
//! The copy is kept in files and folders that this process can read and remove as any user. It may not be allowed to
//! give them the original kinds, permissions and owners, so these are kept beside the files, and a
//! [`SafeDir`](crate::SafeDir) reports them in place of the copy's own.

use std::collections::HashMap;

use rustix::fs::Stat;

/// Keyed by inode number: the tree lies within one file system, and nothing writes to it.
#[derive(Debug, Default)]
pub struct TreeMetadata {
    entries: HashMap<u64, EntryMetadata>,
}

/// Metadata of an entry. `mode` includes the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl TreeMetadata {
    // The widths of `Stat`'s fields differ between architectures, so some conversions are no-ops here.
    #[allow(clippy::unnecessary_cast)]
    pub(crate) fn tell(&mut self, of: &Stat, rights: EntryMetadata) -> rustix::io::Result<()> {
        match self.entries.insert(of.st_ino as u64, rights) {
            None => Ok(()),
            // Some layered file systems renumber folders: the metadata could be attributed to another entry.
            Some(_) => Err(rustix::io::Errno::OPNOTSUPP),
        }
    }

    #[allow(clippy::unnecessary_cast)]
    pub(super) fn over(&self, mut stat: Stat) -> Stat {
        if let Some(metadata) = self.entries.get(&(stat.st_ino as u64)) {
            stat.st_mode = metadata.mode as _;
            stat.st_uid = metadata.uid;
            stat.st_gid = metadata.gid;
        }
        stat
    }
}
