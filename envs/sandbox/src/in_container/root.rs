//! The root folder of a container, held open by a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::safe_dir::{FOLDER, KeepAlive, failed, open_beneath, retry_interrupted};
use crate::{EntryStat, FileKind, Owner, PutFile, SafeDir, SafeReadError};

/// Permission bits of a folder that programs may not write to.
const CLOSED: u32 = 0o755;
/// Permission bits of a folder that all may write to.
const OPEN: u32 = 0o777;

/// Virtual file systems: proc, sysfs, cgroup, cgroup2, devpts, mqueue. They cannot serve as a workspace, and reading one
/// completely has side effects and errors of its own.
const VIRTUAL_FILE_SYSTEMS: [u64; 6] = [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1, 0x1980_0202];

/// The folder, and what keeps its content alive.
#[derive(Debug, Clone)]
pub(super) struct ContainerRoot {
    dir: SafeDir,
    keep_alive: KeepAlive,
}

impl ContainerRoot {
    /// Opens the root of the process's mount namespace.
    pub(super) fn open(pid: u32, keep_alive: KeepAlive) -> Result<Self, SafeReadError> {
        // The link in /proc leads into the other namespace; its target's name means nothing here.
        let path = format!("/proc/{pid}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(|errno| failed(Path::new(&path), errno))?;
        Ok(Self { dir: SafeDir::kept(root, Arc::clone(&keep_alive))?, keep_alive })
    }

    /// The folder itself, through which no link is followed.
    pub(super) fn dir(&self) -> &SafeDir {
        &self.dir
    }

    /// Opens a folder by its path inside. Links on the way are resolved as for a program inside, and cannot lead
    /// outside.
    pub(super) fn folder(&self, path: &str) -> Result<SafeDir, SafeReadError> {
        let found = self.resolve(path, OFlags::PATH | OFlags::DIRECTORY)?;
        SafeDir::kept(found, Arc::clone(&self.keep_alive))
    }

    /// The working folder of programs: what the path refers to now, as a program inside would resolve it. An agent may
    /// have put anything there.
    pub(super) fn workspace(&self, path: &str) -> Result<SafeDir, SafeReadError> {
        let found = self.resolve(path, OFlags::PATH)?;
        let named = |errno: Errno| failed(Path::new(path), errno);
        let stat = EntryStat::from(&rustix::fs::fstat(&found).map_err(named)?);
        if stat.kind != FileKind::Folder {
            return Err(SafeReadError::NotFolder { path: path.into(), kind: stat.kind });
        }
        // The width of the field differs between architectures.
        #[allow(clippy::unnecessary_cast)]
        let made_by = rustix::fs::fstatfs(&found).map_err(named)?.f_type as u64;
        if VIRTUAL_FILE_SYSTEMS.contains(&made_by) {
            return Err(SafeReadError::Escape { path: path.into() });
        }
        SafeDir::kept(found, Arc::clone(&self.keep_alive))
    }

    /// Reads a file of the image: before any program of the agent ran, or one that can mislead only its own container.
    pub(super) fn read_trusting_links(&self, path: &str, cap: u64) -> Result<Vec<u8>, SafeReadError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.folder(if folder.is_empty() { "/" } else { folder })?.read_file(name, cap)
    }

    pub(super) fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, SafeReadError> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        retry_interrupted(|| openat2(&self.dir, path, flags, Mode::empty(), resolve))
            .map_err(|errno| failed(Path::new(path), errno))
    }

    /// Replaces whatever is at a path with a folder that holds these files. The files belong to root, and so does the
    /// folder, unless it is empty: then all may write to it. Entries that the agent left on the path are replaced,
    /// never followed. Blocks.
    pub(super) fn replace_folder(&self, path: &str, files: &[PutFile], owner: Owner) -> io::Result<()> {
        let folder = self.fresh_folder(path, if files.is_empty() { OPEN } else { CLOSED }, owner)?;
        for file in files {
            file.write_to(&folder, file.mode, Some(owner))
                .map_err(|error| io::Error::other(format!("{path}/{}: {error}", file.path)))?;
        }
        Ok(())
    }

    /// Creates an empty folder in place of whatever is at the path.
    pub(super) fn fresh_folder(&self, path: &str, mode: u32, owner: Owner) -> io::Result<SafeDir> {
        let names: Vec<_> = Path::new(path)
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let mut at = open_beneath(self.dir.as_fd(), c".", FOLDER, Mode::empty())?;
        for (number, name) in names.iter().enumerate() {
            let last = number + 1 == names.len();
            let name = Path::new(name);
            if last || !is_folder(at.as_fd(), name)? {
                remove(at.as_fd(), name)?;
            }
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(CLOSED)) {
                Err(Errno::EXIST) if !last => {}
                made => made?,
            }
            at = open_beneath(at.as_fd(), name, FOLDER, Mode::empty())?;
            if last {
                let (uid, gid) = (rustix::fs::Uid::from_raw(owner.uid), rustix::fs::Gid::from_raw(owner.gid));
                rustix::fs::fchown(&at, Some(uid), Some(gid))?;
                // The umask may have removed permission bits, and so may a change of owner.
                rustix::fs::fchmod(&at, Mode::from_raw_mode(mode))?;
            }
        }
        SafeDir::kept(at, Arc::clone(&self.keep_alive)).map_err(io::Error::other)
    }
}

/// Removes everything in a folder. Blocks.
pub(super) fn empty(folder: &SafeDir) -> io::Result<()> {
    let open = open_beneath(folder.as_fd(), c".", FOLDER, Mode::empty())?;
    let names: Vec<_> = crate::safe_dir::listing(open.as_fd(), || Ok::<_, Errno>(()))?;
    names
        .iter()
        .try_for_each(|name| remove(open.as_fd(), Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))))
}

fn is_folder(parent: BorrowedFd<'_>, name: &Path) -> io::Result<bool> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes an entry and everything below it, following no link.
fn remove(parent: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    if is_folder(parent, name)? {
        return remove_folder(parent, name);
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Runs `rm`, which needs neither stack nor descriptors in proportion to the depth: the agent decides how deep the
/// folder is, and the standard library's function recurses.
fn remove_folder(parent: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    // The descriptor identifies the folder; only the last name is looked up, and never followed.
    let folder = format!("/proc/{}/fd/{}", std::process::id(), parent.as_raw_fd());
    let output = Command::new("rm")
        .args(["-rf", "--one-file-system", "--"])
        .arg(Path::new(&folder).join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn root_at(inside: &Path) -> ContainerRoot {
        let fd = rustix::fs::open(inside, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let keep_alive: KeepAlive = Arc::new(());
        ContainerRoot { dir: SafeDir::kept(fd, Arc::clone(&keep_alive)).unwrap(), keep_alive }
    }

    #[test]
    fn workspace_follows_its_current_path() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("f"), "outside").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let at = |path: &str| inside.path().join(path);
        let root = root_at(inside.path());
        let found = || root.workspace("/app").map(|folder| folder.read_file("f", 100));
        std::fs::create_dir(at("app")).unwrap();
        std::fs::write(at("app/f"), "first").unwrap();
        assert_eq!(found().unwrap().unwrap(), b"first");
        std::fs::rename(at("app"), at("aside")).unwrap();
        assert!(matches!(found(), Err(SafeReadError::Missing { .. })));
        std::fs::create_dir(at("app")).unwrap();
        std::fs::write(at("app/f"), "second").unwrap();
        assert_eq!(found().unwrap().unwrap(), b"second");
        std::fs::remove_dir_all(at("app")).unwrap();
        // A link is resolved as for a program inside, and never leads outside.
        symlink("/aside", at("app")).unwrap();
        assert_eq!(found().unwrap().unwrap(), b"first");
        let replaced = |target: &Path| {
            std::fs::remove_file(at("app")).unwrap();
            symlink(target, at("app")).unwrap();
        };
        replaced(outside.path());
        assert!(matches!(found(), Err(SafeReadError::Missing { .. })));
        replaced(&Path::new("../../../../..").join(outside.path().strip_prefix("/").unwrap()));
        assert!(matches!(found(), Err(SafeReadError::Missing { .. })));
        replaced(Path::new("/app"));
        assert!(matches!(found(), Err(SafeReadError::Symlink { .. })));
        replaced(Path::new("/aside/f"));
        let error = found().unwrap_err();
        assert_eq!(error.to_string(), "\"/app\" is a regular file, not a folder");
        assert!(!error.is_infrastructure());
    }

    #[test]
    fn virtual_file_systems_are_not_workspaces() {
        let root = root_at(Path::new("/"));
        for path in ["/proc", "/sys", "/proc/self/net"] {
            let found = root.workspace(path);
            assert!(matches!(found, Err(SafeReadError::Escape { .. })), "{path}: {found:?}");
        }
        assert!(matches!(root.workspace("/proc/self/root"), Err(SafeReadError::Symlink { .. })));
    }

    fn check(prepare: impl FnOnce(&Path), path: &str) {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("precious"), "stays").unwrap();
        let inside = tempfile::tempdir().unwrap();
        prepare(inside.path());
        let root = root_at(inside.path());
        let own = rustix::process::geteuid().as_raw();
        let files = [PutFile { path: "sub/f".to_owned(), mode: 0o644, content: Arc::from(&b"new"[..]) }];
        root.replace_folder(path, &files, Owner { uid: own, gid: rustix::process::getegid().as_raw() })
            .unwrap();
        let laid = inside.path().join(path.trim_start_matches('/'));
        assert_eq!(std::fs::read_to_string(laid.join("sub/f")).unwrap(), "new");
        assert_eq!(std::fs::read_dir(&laid).unwrap().count(), 1);
        assert_eq!(laid.symlink_metadata().unwrap().permissions().mode() & 0o777, CLOSED);
        assert_eq!(std::fs::read_to_string(outside.path().join("precious")).unwrap(), "stays");
    }

    #[test]
    fn depth_costs_neither_stack_nor_descriptors() {
        check(
            |root| {
                let mut at = rustix::fs::open(root, OFlags::DIRECTORY, Mode::empty()).unwrap();
                for name in std::iter::once("tests").chain(std::iter::repeat_n("d", 20_000)) {
                    rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
                    at = rustix::fs::openat(&at, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
                }
            },
            "/tests",
        );
    }

    #[test]
    fn replacement_follows_no_link() {
        check(|_| {}, "/tests");
        check(|root| std::fs::write(root.join("tests"), "a file").unwrap(), "/tests");
        check(|root| symlink("/etc", root.join("tests")).unwrap(), "/tests");
        check(
            |root| {
                std::fs::create_dir_all(root.join("tests/old")).unwrap();
                symlink("/", root.join("tests/old/link")).unwrap();
                std::fs::set_permissions(root.join("tests"), std::fs::Permissions::from_mode(0o777)).unwrap();
            },
            "/tests",
        );
        check(|root| symlink("/tmp", root.join("logs")).unwrap(), "/logs/verifier");
        check(|root| std::fs::write(root.join("logs"), "").unwrap(), "/logs/verifier");
    }
}
