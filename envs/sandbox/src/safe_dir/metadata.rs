//! What the entries of a tree are where the tree comes from.
//!
//! A tree that was brought from elsewhere is kept in files and folders that this process can read and remove, whoever it
//! is; kinds, rights and owners, which it might not be allowed to give them, stand beside them. Whoever looks at the tree
//! through a [`SafeDir`](crate::SafeDir) is told those.

use std::collections::HashMap;

use rustix::fs::Stat;

/// By the number of the file: the tree is within one file system, and nobody writes to it.
#[derive(Debug, Default)]
pub struct TreeMetadata {
    entries: HashMap<u64, EntryMetadata>,
}

/// Of an entry. The kind is in its mode.
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
            // Some layered file systems number folders anew: what is told would be told of another.
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
