//! What is in a copy's way, removed with all below it.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, Stat};
use rustix::io::Errno;

use super::bounds::Budget;
use super::chain::Chain;
use super::walk::{Entry, Visitor, walk};
use super::{TreeBounds, TreeError};
use crate::safe_dir::{FOLDER, open_beneath, write_failed};
use crate::{SafeDir, SafeReadError};

/// As much as is there: somebody else has decided what an image holds.
const EVERYTHING: TreeBounds = TreeBounds { entries: u64::MAX, depth: u64::MAX, bytes: u64::MAX };

/// Removes an entry of a folder, following no link and entering no mount. As this process, whoever owns it. Blocks.
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
    let folder = open_beneath(parent, name, FOLDER, Mode::empty()).map_err(failed)?;
    open_up(folder.as_fd());
    let tree = SafeDir::from_fd(folder.try_clone().map_err(|error| write_failed(path, error))?)?;
    walk(&tree, Path::new("."), EVERYTHING, &mut Removal { chain: Chain::new(folder) })?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(failed)
}

/// Lets its owner change what is in it. Who is not its owner needs other rights than its bits, or has none.
pub(super) fn open_up(folder: BorrowedFd<'_>) {
    let _ = rustix::fs::fchmod(folder, Mode::RWXU);
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
        let name = path.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes).unwrap_or_default();
        let name = std::ffi::CString::new(name).unwrap_or_default();
        self.chain.pop();
        self.unlink(&name, path, AtFlags::REMOVEDIR)
    }

    fn unreadable(&mut self, _: &Path, error: SafeReadError) -> Result<(), TreeError> {
        Err(error.into())
    }
}
