//! Opening, reading and inspecting entries.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::{EntryStat, FileKind, SafeReadError, TreeMetadata};

/// A folder with untrusted content, held by a descriptor: it stays usable when its mount is detached or its name is
/// gone. Clones share the descriptor.
///
/// All operations block; run them on a thread that may.
#[derive(Debug, Clone)]
pub struct SafeDir {
    root: Arc<Held>,
}

/// Dropped when the folder can no longer be read.
pub type KeepAlive = Arc<dyn std::any::Any + Send + Sync>;

#[derive(Debug)]
struct Held {
    /// Declared first, so closed first.
    fd: OwnedFd,
    /// The original metadata of a tree that was copied from elsewhere.
    metadata: Option<TreeMetadata>,
    _keeper: Option<KeepAlive>,
}

impl SafeDir {
    /// Opens a folder. Its path is trusted and links on it are followed; only the content is untrusted.
    ///
    /// # Errors
    /// [`SafeReadError`], with the path as given.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SafeReadError> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
        Self::from_fd(root)
    }

    /// Takes the descriptor of a folder, opened with `O_PATH` or for reading.
    ///
    /// # Errors
    /// [`SafeReadError::NotFolder`], or [`SafeReadError::NoOpenat2`] if no operation would work.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, SafeReadError> {
        Self::held(fd, None, None)
    }

    /// As [`Self::open`], for an [unpacked](crate::unpack_tree) tree. `keep_alive` is dropped after the last clone has
    /// closed the descriptor.
    ///
    /// # Errors
    /// As there.
    pub fn open_with_metadata(
        path: impl AsRef<Path>,
        metadata: TreeMetadata,
        keep_alive: KeepAlive,
    ) -> Result<Self, SafeReadError> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
        Self::held(root, Some(metadata), Some(keep_alive))
    }

    /// Takes a descriptor. `keep_alive` is dropped after the last clone has closed it.
    pub(crate) fn kept(fd: OwnedFd, keep_alive: KeepAlive) -> Result<Self, SafeReadError> {
        Self::held(fd, None, Some(keep_alive))
    }

    fn held(
        fd: OwnedFd,
        metadata: Option<TreeMetadata>,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Self, SafeReadError> {
        let here = Path::new(".");
        let stat = fstat(fd.as_fd()).map_err(|errno| failed(here, errno))?;
        if stat.kind != FileKind::Folder {
            return Err(SafeReadError::NotFolder { path: here.into(), kind: stat.kind });
        }
        open_beneath(fd.as_fd(), c".", OFlags::PATH, Mode::empty()).map_err(|errno| failed(here, errno))?;
        Ok(Self { root: Arc::new(Held { fd, metadata, _keeper: keep_alive }) })
    }

    /// All of a regular file. A file that grows while it is read counts with its growth.
    ///
    /// # Errors
    /// [`SafeReadError`]; `TooLarge` above `cap` bytes.
    pub fn read_file(&self, path: impl AsRef<Path>, cap: u64) -> Result<Vec<u8>, SafeReadError> {
        let path = clean(path.as_ref())?;
        let fd = self.open_regular(&path)?;
        let stat = fstat(fd.as_fd()).map_err(|errno| failed(&path, errno))?;
        if stat.size > cap {
            return Err(SafeReadError::TooLarge { path, size: stat.size, cap });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0));
        match File::from(fd).take(cap.saturating_add(1)).read_to_end(&mut bytes) {
            Ok(read) if read as u64 > cap => Err(SafeReadError::TooLarge { path, size: read as u64, cap }),
            Ok(_) => Ok(bytes),
            Err(source) => Err(SafeReadError::Io { path, source }),
        }
    }

    /// Opens a regular file for reading, for content that is too large to be read at once.
    ///
    /// # Errors
    /// [`SafeReadError`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File, SafeReadError> {
        let path = clean(path.as_ref())?;
        Ok(File::from(self.open_regular(&path)?))
    }

    /// Metadata of an entry. A link at the end of the path is described; a link before it is refused.
    ///
    /// # Errors
    /// [`SafeReadError`]; `Missing` when nothing is there.
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<EntryStat, SafeReadError> {
        let path = clean(path.as_ref())?;
        self.whole_stat(&path).map(|stat| EntryStat::from(&stat))
    }

    /// The kernel's metadata of an entry; `path` must be clean.
    pub(crate) fn whole_stat(&self, path: &Path) -> Result<Stat, SafeReadError> {
        let fd = self.look_at(path)?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed(path, errno))?;
        Ok(self.with_metadata(stat))
    }

    /// Replaces metadata by the original's, if this tree was copied from elsewhere.
    pub(crate) fn with_metadata(&self, stat: Stat) -> Stat {
        self.root.metadata.as_ref().map_or(stat, |metadata| metadata.over(stat))
    }

    /// Whether anything is there. A dangling link counts as existing.
    ///
    /// # Errors
    /// [`SafeReadError`] when this cannot be determined: a link or an unreadable folder on the way.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool, SafeReadError> {
        match self.stat(path) {
            Ok(_) => Ok(true),
            Err(SafeReadError::Missing { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// A descriptor of the entry that only allows metadata queries.
    pub(super) fn look_at(&self, path: &Path) -> Result<OwnedFd, SafeReadError> {
        let folders =
            path.ancestors().skip(1).map(|way| if way.as_os_str().is_empty() { Path::new(".") } else { way });
        for folder in folders {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            // Anything that is not a folder is itself the obstacle.
            if let Ok(fd) = open_beneath(self.as_fd(), folder, flags, Mode::empty()) {
                self.must_allow(path, fd.as_fd(), Permission::Pass)?;
            }
        }
        open_beneath(self.as_fd(), path, OFlags::PATH, Mode::empty())
            .map_err(|errno| self.refused(path, errno))
    }

    /// The entry, if its owner has this permission. The kernel checks the same, except for root.
    pub(crate) fn must_allow(
        &self,
        path: &Path,
        fd: BorrowedFd<'_>,
        right: Permission,
    ) -> Result<Stat, SafeReadError> {
        let stat = self.with_metadata(rustix::fs::fstat(fd).map_err(|errno| failed(path, errno))?);
        if Mode::from_raw_mode(stat.st_mode).contains(right.of_owner()) {
            return Ok(stat);
        }
        Err(failed(path, Errno::ACCESS))
    }

    /// A descriptor of a folder for reading; `path` must be clean.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<OwnedFd, SafeReadError> {
        match EntryStat::from(&self.whole_stat(path)?).kind {
            FileKind::Folder => {
                let folder = open_beneath(self.as_fd(), path, FOLDER, Mode::empty())
                    .map_err(|errno| self.refused(path, errno))?;
                self.must_allow(path, folder.as_fd(), Permission::Read)?;
                Ok(folder)
            }
            FileKind::Symlink => Err(SafeReadError::Symlink { path: path.to_owned() }),
            kind => Err(SafeReadError::NotFolder { path: path.to_owned(), kind }),
        }
    }

    /// A descriptor of a file for reading; `path` must be clean.
    pub(crate) fn open_regular(&self, path: &Path) -> Result<OwnedFd, SafeReadError> {
        // Opening a device or a FIFO has side effects, so the kind is checked first. The entry may have been swapped in
        // between, so the second check decides.
        let regular = |fd: BorrowedFd<'_>| {
            let stat = rustix::fs::fstat(fd).map_err(|errno| failed(path, errno))?;
            match EntryStat::from(&self.with_metadata(stat)).kind {
                FileKind::Regular => Ok(()),
                FileKind::Symlink => Err(SafeReadError::Symlink { path: path.to_owned() }),
                kind => Err(SafeReadError::NotRegular { path: path.to_owned(), kind }),
            }
        };
        regular(self.look_at(path)?.as_fd())?;
        let fd = open_beneath(self.as_fd(), path, OFlags::RDONLY, Mode::empty())
            .map_err(|errno| self.refused(path, errno))?;
        regular(fd.as_fd())?;
        self.must_allow(path, fd.as_fd(), Permission::Read)?;
        Ok(fd)
    }

    /// The error for a path that could not be opened.
    pub(super) fn refused(&self, path: &Path, errno: Errno) -> SafeReadError {
        match errno {
            Errno::LOOP => SafeReadError::Symlink { path: self.first_link(path) },
            other => failed(path, other),
        }
    }

    fn first_link(&self, path: &Path) -> PathBuf {
        let mut prefix = PathBuf::new();
        for component in path.components() {
            prefix.push(component);
            let Ok(fd) = open_beneath(self.as_fd(), &*prefix, OFlags::PATH, Mode::empty()) else { break };
            if fstat(fd.as_fd()).is_ok_and(|stat| stat.kind == FileKind::Symlink) {
                return prefix;
            }
        }
        path.to_owned()
    }
}

impl AsFd for SafeDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.fd.as_fd()
    }
}

/// What an owner may do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Read a file, list a folder.
    Read,
    /// Reach the content of a folder.
    Pass,
}

impl Permission {
    fn of_owner(self) -> Mode {
        match self {
            Self::Read => Mode::RUSR,
            Self::Pass => Mode::XUSR,
        }
    }
}

pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Every open in this module goes through this function.
pub(crate) fn open_beneath(
    dir: BorrowedFd<'_>,
    path: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
        .union(ResolveFlags::NO_SYMLINKS)
        .union(ResolveFlags::NO_MAGICLINKS)
        .union(ResolveFlags::NO_XDEV);
    let mut flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // With O_PATH the kernel accepts no other flags.
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    rustix::io::retry_on_intr(|| rustix::fs::openat2(dir, path, flags, mode, RESOLVE))
}

/// The names in an open folder, in byte order. `admit` is called before each is kept.
pub(crate) fn listing<E: From<Errno>>(
    folder: BorrowedFd<'_>,
    mut admit: impl FnMut() -> Result<(), E>,
) -> Result<Vec<CString>, E> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            admit()?;
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The target of a link whose kind was checked before.
pub(crate) fn read_link(folder: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<CString, SafeReadError> {
    rustix::fs::readlinkat(folder, name, Vec::new()).map_err(|errno| match errno {
        // It is not a link any more.
        Errno::INVAL => SafeReadError::Changed { path: path.to_owned() },
        other => failed(path, other),
    })
}

/// The path without `.` and doubled slashes, or why it does not lie beneath the folder.
pub(crate) fn clean(path: &Path) -> Result<PathBuf, SafeReadError> {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => cleaned.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(SafeReadError::Escape { path: path.to_owned() });
            }
        }
    }
    if cleaned.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(SafeReadError::Missing { path: path.to_owned() });
    }
    Ok(if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned })
}

fn fstat(fd: BorrowedFd<'_>) -> rustix::io::Result<EntryStat> {
    rustix::fs::fstat(fd).map(|stat| EntryStat::from(&stat))
}

/// How often a look-up is retried after other activity on the machine interrupted it.
const MAX_TRIES: u32 = 100;

/// Retries a look-up that may pass `..`: the kernel aborts it while any process renames or mounts.
pub(crate) fn retry_interrupted<T>(
    mut look_up: impl FnMut() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let mut tries = 0;
    loop {
        match look_up() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if tries < MAX_TRIES => tries += 1,
            found => return found,
        }
    }
}

/// The error that an error number means for a path.
pub(crate) fn failed(path: &Path, errno: Errno) -> SafeReadError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => SafeReadError::Missing { path },
        Errno::LOOP => SafeReadError::Symlink { path },
        Errno::XDEV => SafeReadError::Escape { path },
        // A former regular file is now a socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => SafeReadError::Changed { path },
        Errno::ACCESS | Errno::PERM | Errno::AGAIN => {
            SafeReadError::Unreadable { path, source: errno.into() }
        }
        Errno::NOSYS => SafeReadError::NoOpenat2,
        _ => SafeReadError::Io { path, source: io::Error::from(errno) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(clean(Path::new(path)).ok().as_deref(), expected.map(Path::new), "{path:?}");
    }

    #[test]
    fn interrupted_look_ups_are_retried() {
        let check = |errors: &[Errno], expected: Result<usize, Errno>| {
            let mut errors = errors.iter();
            let mut made = 0;
            let found = retry_interrupted(|| {
                made += 1;
                errors.next().map_or(Ok(made), |errno| Err(*errno))
            });
            assert_eq!(found, expected);
        };
        check(&[], Ok(1));
        check(&[Errno::AGAIN, Errno::INTR, Errno::AGAIN], Ok(4));
        check(&[Errno::NOENT], Err(Errno::NOENT));
        check(&[Errno::AGAIN; 100], Ok(101));
        check(&[Errno::AGAIN; 101], Err(Errno::AGAIN));
    }

    #[test]
    fn only_paths_beneath_are_clean() {
        check("a/b", Some("a/b"));
        check("./a//b/./", Some("a/b"));
        check(".", Some("."));
        check("", Some("."));
        check("..", None);
        check("a/../b", None);
        check("/a", None);
        check("a\0b", None);
    }
}
