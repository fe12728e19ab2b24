//! A depth-first walk over a tree: names of a folder in byte order, a folder before its content.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, Stat};
use rustix::io::Errno;

use super::bounds::Budget;
use super::chain::Chain;
use super::{TreeBounds, TreeError};
use crate::safe_dir::{FOLDER, Permission, clean, failed, listing, open_beneath};
use crate::{EntryStat, FileKind, SafeDir, SafeReadError};

pub(super) struct Entry<'a> {
    pub(super) tree: &'a SafeDir,
    /// The entry's folder.
    pub(super) folder: BorrowedFd<'a>,
    /// Name in that folder.
    pub(super) name: &'a CStr,
    /// Path relative to the start of the walk.
    pub(super) path: &'a Path,
    /// Metadata, read after the listing.
    pub(super) stat: &'a Stat,
    pub(super) kind: FileKind,
}

/// Callbacks of a walk.
pub(super) trait Visitor {
    /// Whether the entry at this path, relative to the start of the walk, is skipped with its content.
    fn passes_over(&self, _path: &[u8]) -> bool {
        false
    }

    /// A folder is about to be opened.
    fn before(&mut self, _entry: &Entry<'_>) {}

    /// A folder was opened; its content follows.
    fn enter(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError>;

    /// Anything that is not a folder.
    fn leaf(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError>;

    /// The innermost open folder is done.
    fn leave(&mut self, stat: &Stat, path: &Path) -> Result<(), TreeError>;

    /// An entry whose kind or content its owner or this process may not read.
    fn unreadable(&mut self, path: &Path, error: SafeReadError) -> Result<(), TreeError>;
}

struct Frame {
    /// Remaining names, in reverse order.
    pending: Vec<CString>,
    /// Length of the path of this folder.
    path_len: usize,
    /// Metadata of this folder; `None` for the start.
    stat: Option<Stat>,
    /// Whether its owner may reach its content.
    is_open: bool,
}

/// Walks over the folder at `start`, which itself is not visited.
pub(super) fn walk(
    root: &SafeDir,
    start: &Path,
    bounds: TreeBounds,
    visitor: &mut impl Visitor,
) -> Result<(), TreeError> {
    let mut budget = Budget::new(bounds);
    let base = root.open_folder(&clean(start)?)?;
    let mut path: Vec<u8> = Vec::new();
    let pending = names(base.as_fd(), &path, &mut budget)?;
    let is_open = root.must_allow(start, base.as_fd(), Permission::Pass).is_ok();
    let mut frames = vec![Frame { pending, path_len: 0, stat: None, is_open }];
    let mut chain = Chain::new(base);

    while let Some(frame) = frames.last_mut() {
        path.truncate(frame.path_len);
        let is_open = frame.is_open;
        let Some(name) = frame.pending.pop() else {
            if let Some(stat) = frame.stat {
                visitor.leave(&stat, as_path(&path))?;
                chain.pop();
            }
            frames.pop();
            continue;
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        if visitor.passes_over(&path) {
            continue;
        }
        let here = as_path(&path);
        budget.level(frames.len() as u64, here)?;

        if !is_open {
            skip_unreadable(visitor, here, Errno::ACCESS)?;
            continue;
        }
        let folder = chain.folder().map_err(|errno| failed(here, errno))?;
        let stat = match rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => root.with_metadata(stat),
            Err(errno) => {
                skip_unreadable(visitor, here, errno)?;
                continue;
            }
        };
        let kind = EntryStat::from(&stat).kind;
        let entry = Entry { tree: root, folder, name: &name, path: here, stat: &stat, kind };
        if kind != FileKind::Folder {
            visitor.leaf(&entry, &mut budget)?;
            continue;
        }
        visitor.before(&entry);
        match open_beneath(folder, name.as_c_str(), FOLDER, Mode::empty()) {
            Ok(inner) if root.must_allow(here, inner.as_fd(), Permission::Read).is_err() => {
                skip_unreadable(visitor, here, Errno::ACCESS)?;
            }
            Ok(inner) => {
                let is_open = root.must_allow(here, inner.as_fd(), Permission::Pass).is_ok();
                visitor.enter(&entry, &mut budget)?;
                let pending = names(inner.as_fd(), &path, &mut budget)?;
                chain.push(&name, inner);
                frames.push(Frame { pending, path_len: path.len(), stat: Some(stat), is_open });
            }
            Err(errno) => skip_unreadable(visitor, here, errno)?,
        }
    }
    Ok(())
}

fn names(folder: BorrowedFd<'_>, path: &[u8], budget: &mut Budget) -> Result<Vec<CString>, TreeError> {
    let path = if path.is_empty() { Path::new(".") } else { as_path(path) };
    let mut names =
        listing(folder, || budget.entry(path).map_err(Stopped::Bound)).map_err(|stopped| match stopped {
            Stopped::Bound(error) => error,
            Stopped::Errno(errno) => failed(path, errno).into(),
        })?;
    names.reverse();
    Ok(names)
}

/// Why a listing ended early.
enum Stopped {
    Errno(Errno),
    Bound(TreeError),
}

impl From<Errno> for Stopped {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

fn skip_unreadable(visitor: &mut impl Visitor, path: &Path, errno: Errno) -> Result<(), TreeError> {
    match failed(path, errno) {
        error @ SafeReadError::Unreadable { .. } => visitor.unreadable(path, error),
        error => Err(error.into()),
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
