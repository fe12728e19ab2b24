//! Creating folders and files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, symlinkat, unlinkat};
use rustix::io::Errno;

use super::dir::{FOLDER, clean};
use super::{ActingAs, EntryStat, FileKind, Owner, SafeDir, SafeReadError, SafeWriteError, open_beneath};

/// Permission bits of missing parent folders that are created.
const PARENT_MODE: u32 = 0o755;

impl SafeDir {
    /// Creates a folder, and missing parents (0755). Existing folders stay unchanged.
    ///
    /// `mode` is set exactly, whatever the process's umask. With an `owner` other than the caller, which requires root,
    /// new folders belong to the owner and are created with its permissions only.
    ///
    /// # Errors
    /// [`SafeWriteError`]; `Refused` when something on the way is not a folder.
    pub fn make_dirs(
        &self,
        path: impl AsRef<Path>,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<(), SafeWriteError> {
        let path = clean(path.as_ref())?;
        let _acting =
            ActingAs::owner(owner).map_err(|source| SafeWriteError::Io { path: path.clone(), source })?;
        self.folders(&path, mode)
    }

    /// Writes a file, creating missing parent folders (0755).
    ///
    /// A new file is created exclusively. An existing one is overwritten in place, keeping its owner, if it is a
    /// regular file with a single name; `mode` is set either way. With an `owner` other than the caller, which requires
    /// root, new entries belong to the owner and are created with its permissions only.
    ///
    /// # Errors
    /// [`SafeWriteError`]. After `Full` and `Io` the file may exist in part.
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<(), SafeWriteError> {
        self.write_with(path.as_ref(), mode, owner, |file, path| {
            file.write_all(bytes).map_err(|source| write_failed(path, source))
        })
    }

    /// Creates a symbolic link, and missing parent folders (0755). The target is not checked, because nothing here
    /// follows it. An existing file or link is replaced.
    ///
    /// # Errors
    /// [`SafeWriteError`]; also for a folder at this path.
    pub fn write_link(
        &self,
        path: impl AsRef<Path>,
        target: &[u8],
        owner: Option<Owner>,
    ) -> Result<(), SafeWriteError> {
        let path = clean(path.as_ref())?;
        let _acting = ActingAs::owner(owner).map_err(|source| write_failed(&path, source))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.folders(parent, PARENT_MODE)?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = open_beneath(self.as_fd(), parent.unwrap_or(Path::new(".")), flags, Mode::empty())
            .map_err(|errno| self.write_refused(&path, errno))?;
        let (target, name) = (OsStr::from_bytes(target), path.file_name().unwrap_or_default());
        let made = match symlinkat(target, &folder, name) {
            Err(Errno::EXIST) => {
                unlinkat(&folder, name, AtFlags::empty()).and_then(|()| symlinkat(target, &folder, name))
            }
            made => made,
        };
        made.map_err(|errno| write_failed(&path, errno.into()))
    }

    /// As [`Self::write_file`], with content written by `write`.
    pub(crate) fn write_with<T, E: From<SafeWriteError>>(
        &self,
        path: &Path,
        mode: u32,
        owner: Option<Owner>,
        write: impl FnOnce(&mut File, &Path) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = clean(path).map_err(SafeWriteError::from)?;
        let _acting = ActingAs::owner(owner).map_err(|source| write_failed(&path, source))?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.folders(parent, PARENT_MODE)?;
        }
        let mut file = File::from(self.open_for_writing(&path)?);
        let written = write(&mut file, &path)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))
            .map_err(|errno| write_failed(&path, errno.into()))?;
        Ok(written)
    }

    fn open_for_writing(&self, path: &Path) -> Result<OwnedFd, SafeWriteError> {
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        match open_beneath(self.as_fd(), path, create, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => return Ok(fd),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.write_refused(path, errno)),
        }
        // Not O_TRUNC: an existing file is checked before it is emptied.
        must_be_regular(path, &self.stat(path)?)?;
        let fd = open_beneath(self.as_fd(), path, OFlags::WRONLY, Mode::empty())
            .map_err(|errno| self.write_refused(path, errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| write_failed(path, errno.into()))?;
        must_be_regular(path, &EntryStat::from(&stat))?;
        rustix::fs::ftruncate(&fd, 0).map_err(|errno| write_failed(path, errno.into()))?;
        Ok(fd)
    }

    fn folders(&self, path: &Path, mode: u32) -> Result<(), SafeWriteError> {
        let mut at = PathBuf::new();
        let mut folder = open_beneath(self.as_fd(), c".", OFlags::PATH, Mode::empty())
            .map_err(|errno| self.write_refused(path, errno))?;
        for component in path.components() {
            at.push(component);
            let name = Path::new(component.as_os_str());
            let open = |flags| {
                open_beneath(folder.as_fd(), name, flags, Mode::empty()).map_err(|errno| match errno {
                    Errno::NOTDIR => {
                        SafeReadError::NotFolder { path: at.clone(), kind: FileKind::Regular }.into()
                    }
                    errno => self.write_refused(&at, errno),
                })
            };
            folder = match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) => {
                    let created = open(FOLDER)?;
                    let mode = if at == path { mode } else { PARENT_MODE };
                    rustix::fs::fchmod(&created, Mode::from_raw_mode(mode & 0o7777))
                        .map_err(|errno| write_failed(&at, errno.into()))?;
                    created
                }
                Err(Errno::EXIST) => {
                    let found = self.stat(&at)?;
                    match found.kind {
                        FileKind::Folder => open(OFlags::PATH | OFlags::DIRECTORY)?,
                        FileKind::Symlink => return Err(SafeReadError::Symlink { path: at }.into()),
                        kind => return Err(SafeReadError::NotFolder { path: at, kind }.into()),
                    }
                }
                Err(errno) => return Err(self.write_refused(&at, errno)),
            };
        }
        Ok(())
    }

    /// The error for a path that could not be created or opened for writing.
    fn write_refused(&self, path: &Path, errno: Errno) -> SafeWriteError {
        match self.refused(path, errno) {
            // For a writer, a missing permission, a vanished parent or a name that is too long is an ordinary failure.
            SafeReadError::Unreadable { source, .. } => write_failed(path, source),
            SafeReadError::Missing { .. } | SafeReadError::Io { .. } => write_failed(path, errno.into()),
            other => other.into(),
        }
    }
}

fn must_be_regular(path: &Path, stat: &EntryStat) -> Result<(), SafeWriteError> {
    match stat.kind {
        FileKind::Regular if stat.nlink > 1 => Err(SafeWriteError::HardLink { path: path.to_owned() }),
        FileKind::Regular => Ok(()),
        FileKind::Symlink => Err(SafeReadError::Symlink { path: path.to_owned() }.into()),
        kind => Err(SafeReadError::NotRegular { path: path.to_owned(), kind }.into()),
    }
}

/// The error that an I/O error means while writing.
pub(crate) fn write_failed(path: &Path, source: io::Error) -> SafeWriteError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SafeWriteError::Full { path },
        io::ErrorKind::FileTooLarge => SafeWriteError::TooLarge { path },
        _ => SafeWriteError::Io { path, source },
    }
}
