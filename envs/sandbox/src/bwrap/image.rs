//! An unpacked root file system, checked before sandboxes use it.
//!
//! The image is untrusted data.
//! I1. Nothing of it is read or resolved outside of it: links, absolute ones too, are resolved as if the image were the
//! whole file system.
//! I2. A path that bubblewrap mounts over contains no link, because bubblewrap would resolve the link against the
//! host's files, which it can still see then.
//! I3. A FIFO or a socket is refused, because two sandboxes on the same image could communicate through it.
//!
//! An image must not change while sandboxes use it. Functions block; errors are permanent provider [`Fault`]s that name
//! the image and how to fix it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clawrl_core::{Boundary, Fault, ImageSpec, workdir_problem};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::arguments::PATH;
use crate::safe_dir::{SafeDir, retry_interrupted};
use crate::tree::{TreeBounds, special_file};
use crate::{SafeReadError, TreeError};

/// Maximum bytes read of an image's own user and group files.
const ACCOUNTS_CAP: u64 = 1 << 20;

/// Maximum number of entries in an image.
const ENTRIES: u64 = 5_000_000;

#[derive(Debug)]
pub(super) struct Image {
    /// Canonical path of the image on the host.
    pub(super) folder: PathBuf,
    root: SafeDir,
    /// Absolute path of the workspace inside, without links.
    pub(super) workdir: String,
    /// The image's content at the workspace's path.
    pub(super) content: Option<SafeDir>,
    /// The image's user and group files, with the agent added.
    pub(super) passwd: String,
    pub(super) group: String,
}

impl Image {
    /// Checks the image in `folder`. `own_users` means that each sandbox has its own user id on the host, which must be
    /// able to reach the image.
    pub(super) fn examine(folder: &Path, spec: &ImageSpec, own_users: bool) -> Result<Self, Fault> {
        let named = |code: &'static str, what: String| {
            Fault::permanent(Boundary::Provider, code, format!("the image {}: {what}", folder.display()))
        };
        let real =
            std::fs::canonicalize(folder).map_err(|error| named("image-missing", error.to_string()))?;
        if real == Path::new("/") {
            return Err(named("image-unfit", "it is this machine's own root, not an image".to_owned()));
        }
        if own_users {
            open_to_all(&real).map_err(|what| named("image-closed", what))?;
        }
        let root = SafeDir::open(&real).map_err(|error| named("image-missing", error.to_string()))?;
        let special =
            special_file(&root, TreeBounds { entries: ENTRIES, bytes: 0, depth: 4096 }, OWN_ENTRIES)
                .map_err(|error| named("image-unreadable", error.to_string()))?;
        if let Some((path, kind)) = special {
            let what = format!(
                "/{} is {kind}, through which sandboxes could communicate: remove it",
                path.display()
            );
            return Err(named("image-unfit", what));
        }
        let asked = spec.workdir.as_deref().unwrap_or(ImageSpec::DEFAULT_WORKDIR);
        let workdir = resolved(&root, &real, asked)
            .map_err(|error| named("image-workdir", format!("`workdir: {asked}`: {error}")))?;
        if let Some(problem) = workdir_problem(&workdir) {
            let by_links = if workdir == asked { "" } else { ", after resolving links," };
            let what = format!("`workdir: {asked}`: {workdir}{by_links} {problem}");
            return Err(named("image-workdir", what));
        }
        if own_users {
            let above = Path::new(&workdir).ancestors().skip(1);
            for inside in above.map(|path| real.join(path.strip_prefix("/").unwrap_or(path))) {
                passable(&inside, 0o1).map_err(|what| named("image-closed", what))?;
            }
        }
        let content = match open_in(&root, Path::new(&workdir), OFlags::PATH | OFlags::DIRECTORY) {
            Ok(fd) => Some(SafeDir::from_fd(fd).map_err(|error| named("image-workdir", error.to_string()))?),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(errno) => return Err(named("image-workdir", format!("{workdir}: {errno}"))),
        };
        let accounts = |name: &str| accounts_file(&root, name).unwrap_or_default();
        let (passwd, group) = (accounts("etc/passwd"), accounts("etc/group"));
        Ok(Self { folder: real, root, workdir, content, passwd, group })
    }

    /// Fails unless the program exists, looked up as a shell would.
    pub(super) fn must_have(&self, program: &str) -> Result<(), Fault> {
        let exposed_folders: Vec<PathBuf> = if program.contains('/') {
            vec![program.into()]
        } else {
            PATH.split(':').map(|folder| Path::new(folder).join(program)).collect()
        };
        let runs = |path: &PathBuf| {
            let stat = open_in(&self.root, path, OFlags::PATH).and_then(rustix::fs::fstat);
            stat.is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_mode & 0o111 != 0)
        };
        if exposed_folders.iter().any(runs) {
            return Ok(());
        }
        let where_looked = if program.contains('/') { String::new() } else { format!(" in {PATH}") };
        let message = format!(
            "the image {} lacks the program {program}{where_looked}: install it in the image",
            self.folder.display()
        );
        Err(Fault::permanent(Boundary::Provider, "image-lacks-program", message))
    }

    /// The kind of the entry at an absolute path, following no link at its end.
    pub(super) fn kind(&self, path: &Path) -> Option<crate::FileKind> {
        self.root.stat(path.strip_prefix("/").unwrap_or(path)).ok().map(|stat| stat.kind)
    }
}

/// Top-level names that a sandbox never takes from an image.
pub(super) const OWN_ENTRIES: &[&str] = &["dev", "logs", "proc", "sys", "tests", "tmp"];

/// Opens a path as if the image were the whole file system.
fn open_in(root: &SafeDir, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC;
    retry_interrupted(|| rustix::fs::openat2(root, path, flags, Mode::empty(), resolve))
}

/// An absolute path with its links followed inside the image; components that do not exist are kept unchanged.
fn resolved(root: &SafeDir, real: &Path, path: &str) -> io::Result<String> {
    let mut there = Path::new(path);
    loop {
        match open_in(root, there, OFlags::PATH) {
            Ok(fd) => {
                let host = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
                let inside =
                    host.strip_prefix(real).map_err(|_| io::Error::other("it leads outside the image"))?;
                let rest = Path::new(path).strip_prefix(there).unwrap_or(Path::new(""));
                let mut inside = Path::new("/").join(inside);
                // An empty component would be a trailing slash.
                if !rest.as_os_str().is_empty() {
                    inside.push(rest);
                }
                return inside
                    .into_os_string()
                    .into_string()
                    .map_err(|_| io::Error::other("it is not UTF-8"));
            }
            Err(Errno::NOENT) => there = there.parent().ok_or(io::ErrorKind::NotFound)?,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Fails unless an unprivileged user outside our groups can reach the image.
fn open_to_all(real: &Path) -> Result<(), String> {
    real.ancestors().try_for_each(|folder| passable(folder, if folder == real { 0o5 } else { 0o1 }))
}

/// Whether a folder has these permission bits for others; a folder that does not exist passes.
fn passable(folder: &Path, needed: u32) -> Result<(), String> {
    let Ok(metadata) = std::fs::symlink_metadata(folder) else { return Ok(()) };
    if metadata.is_symlink() || metadata.permissions().mode() & needed == needed {
        return Ok(());
    }
    let bits = if needed == 0o1 { "o+x" } else { "o+rx" };
    Err(format!(
        "{} is closed to other users, but every sandbox runs as its own user: run `chmod {bits}` on it, or \
         move the image",
        folder.display()
    ))
}

/// Reads an account file inside the image. One that cannot be read counts as empty, because some images have none.
fn accounts_file(root: &SafeDir, path: &str) -> Option<String> {
    // Check the kind first: opening a device can have side effects.
    let seen = open_in(root, Path::new(path), OFlags::PATH).ok()?;
    let metadata = std::fs::metadata(format!("/proc/self/fd/{}", seen.as_raw_fd())).ok()?;
    if !metadata.is_file() || metadata.size() > ACCOUNTS_CAP {
        return None;
    }
    let file = std::fs::File::from(open_in(root, Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, ACCOUNTS_CAP), &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

pub(super) fn names(image: &Image, folder: &Path) -> Result<Vec<String>, Fault> {
    let failed = |what: String| {
        let message = format!("the image {}: {}: {what}", image.folder.display(), folder.display());
        Fault::permanent(Boundary::Provider, "image-unreadable", message)
    };
    let inner = folder.strip_prefix("/").unwrap_or(folder);
    let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
    let opened = image.root.open_folder(inner).map_err(|error| failed(error.to_string()))?;
    let names = crate::safe_dir::listing::<Errno>(std::os::fd::AsFd::as_fd(&opened), || Ok(()))
        .map_err(|errno| failed(errno.to_string()))?;
    names
        .into_iter()
        .map(|name| name.into_string().map_err(|_| failed("a name in it is not UTF-8".to_owned())))
        .collect()
}

pub(super) fn link_target(image: &Image, path: &Path) -> Option<String> {
    let inner = path.strip_prefix("/").ok()?;
    let folder = inner.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = image.root.open_folder(folder).ok()?;
    let name: &OsStr = inner.file_name()?;
    rustix::fs::readlinkat(&folder, name, Vec::new()).ok()?.into_string().ok()
}

/// The fault for an image's folder that could not be copied into a workspace.
pub(super) fn copy_fault(image: &Image, disk_mib: u32, error: &TreeError) -> Fault {
    let advice = match error {
        TreeError::Bound { .. } | TreeError::NoRoom { .. } => {
            format!("; the workspace starts with a copy of it and has {disk_mib} MiB: raise `disk_mib`")
        }
        _ => String::new(),
    };
    let message = format!("the image {}: {}: {error}{advice}", image.folder.display(), image.workdir);
    match error {
        TreeError::Read(SafeReadError::Io { .. }) | TreeError::Write(crate::SafeWriteError::Io { .. }) => {
            Fault::transient(Boundary::Provider, "image-workdir", message)
        }
        _ => Fault::permanent(Boundary::Provider, "image-workdir", message),
    }
}
