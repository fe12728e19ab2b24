//! Removes entries with everything below them: those in the way of a copy, and copies that are no longer needed.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::bounds::Budget;
use super::chain::Chain;
use super::walk::{Entry, Visitor, walk};
use super::{TreeBounds, TreeError};
use crate::safe_dir::{FOLDER, failed, listing, open_beneath, write_failed};
use crate::{EntryStat, SafeDir, SafeReadError};

/// No limits: the image's author has decided what it holds.
const EVERYTHING: TreeBounds = TreeBounds { entries: u64::MAX, depth: u64::MAX, bytes: u64::MAX };

/// Removes the content of a folder, including folders that their modes close to this process, as in a copy that an
/// unprivileged user made of another user's tree. Blocks.
///
/// # Errors
/// [`TreeError`]; part of it may be gone.
pub fn remove_content(folder: &SafeDir) -> Result<(), TreeError> {
    let here = folder.open_folder(Path::new("."))?;
    let names = listing(here.as_fd(), || Ok::<_, Errno>(()));
    for name in names.map_err(|errno| failed(Path::new("."), errno))? {
        remove(here.as_fd(), &name, Path::new(OsStr::from_bytes(name.to_bytes())))?;
    }
    Ok(())
}

/// Removes an entry of a folder, following no link and crossing no mount, with this process's own permissions. Blocks.
///
/// # Errors
/// [`TreeError`]; part of it may be gone.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<(), TreeError> {
    let failed = |errno: Errno| TreeError::from(write_failed(path, errno.into()));
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    }
    unlock(parent, name);
    let folder = open_beneath(parent, name, FOLDER, Mode::empty()).map_err(failed)?;
    open_up(folder.as_fd());
    let tree = SafeDir::from_fd(folder.try_clone().map_err(|error| write_failed(path, error))?)?;
    walk(&tree, Path::new("."), EVERYTHING, &mut Removal { chain: Chain::new(folder) })?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(failed)
}

/// Makes the folder writable for its owner. Other users need more than mode bits, or have no access.
pub(super) fn open_up(folder: BorrowedFd<'_>) {
    let _ = rustix::fs::fchmod(folder, Mode::RWXU);
}

/// The same for a folder that cannot even be opened. Not by its name, which could refer to another entry in the next
/// moment.
fn unlock(parent: BorrowedFd<'_>, name: &CStr) {
    if let Ok(folder) = open_beneath(parent, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
        let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU);
    }
}

struct Removal {
    /// Follows the walk.
    chain: Chain,
}

impl Removal {
    fn unlink(&mut self, name: &CStr, path: &Path, flags: AtFlags) -> Result<(), TreeError> {
        self.chain
            .folder()
            .and_then(|folder| rustix::fs::unlinkat(folder, name, flags))
            .map_err(|errno| write_failed(path, errno.into()).into())
    }
}

impl Visitor for Removal {
    fn before(&mut self, entry: &Entry<'_>) {
        if EntryStat::from(entry.stat).mode & 0o700 != 0o700 {
            unlock(entry.folder, entry.name);
        }
    }

    fn enter(&mut self, entry: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        let folder = self
            .chain
            .folder()
            .and_then(|folder| open_beneath(folder, entry.name, FOLDER, Mode::empty()))
            .map_err(|errno| write_failed(entry.path, errno.into()))?;
        open_up(folder.as_fd());
        self.chain.push(entry.name, folder);
        Ok(())
    }

    fn leaf(&mut self, entry: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        self.unlink(entry.name, entry.path, AtFlags::empty())
    }

    fn leave(&mut self, _: &Stat, path: &Path) -> Result<(), TreeError> {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let name = std::ffi::CString::new(name).unwrap_or_default();
        self.chain.pop();
        self.unlink(&name, path, AtFlags::REMOVEDIR)
    }

    fn unreadable(&mut self, _: &Path, error: SafeReadError) -> Result<(), TreeError> {
        Err(error.into())
    }
}
