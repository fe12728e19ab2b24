//! Folders with traps in them, for the tests of [`clawrl_sandbox::SafeDir`] and of trees.

// The workspace's exception for tests covers functions marked as tests, not those they share.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use clawrl_sandbox::SafeDir;
use rustix::fs::{
    CWD, FileType, Mode, OFlags, RenameFlags, makedev, mkdirat, mknodat, openat, renameat_with,
};

/// A scratch folder with a `workspace` and, beside it, an `outside` that nothing may touch.
pub(crate) struct Scratch {
    base: tempfile::TempDir,
}

/// Content of every file outside: seeing it means having escaped.
pub(crate) const SECRET: &[u8] = b"outside secret\n";

impl Scratch {
    pub(crate) fn new() -> Self {
        // On a tmpfs where there is one, as a sandbox's workspace is; it is also quicker.
        let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        // Others may pass through, so that tests can act as another user.
        fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(base.path().join("workspace")).unwrap();
        fs::create_dir(base.path().join("outside")).unwrap();
        fs::write(base.path().join("outside/secret"), SECRET).unwrap();
        Self { base }
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.base.path().join("workspace").join(path)
    }

    pub(crate) fn outside(&self, path: impl AsRef<Path>) -> PathBuf {
        self.base.path().join("outside").join(path)
    }

    pub(crate) fn dir(&self) -> SafeDir {
        SafeDir::open(self.path("")).unwrap()
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) {
        symlink(target, self.path(path)).unwrap();
    }

    pub(crate) fn mode(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path(path), PermissionsExt::from_mode(mode)).unwrap();
    }

    pub(crate) fn fifo(&self, path: impl AsRef<Path>) {
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// The socket stays in the folder when its listener is gone.
    pub(crate) fn socket(&self, path: impl AsRef<Path>) {
        drop(UnixListener::bind(self.path(path)).unwrap());
    }

    /// A copy of /dev/null, if this process may make one.
    pub(crate) fn device(&self, path: impl AsRef<Path>) -> bool {
        let made =
            mknodat(CWD, self.path(path), FileType::CharacterDevice, Mode::RUSR, makedev(1, 3)).is_ok();
        if !made {
            println!("note: no device node could be made; that part is not tested here");
        }
        made
    }

    /// `levels` folders called `d` inside each other; the last one holds `bottom`.
    pub(crate) fn deep(&self, levels: usize) {
        let folder = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut at: OwnedFd = openat(CWD, self.path(""), folder, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", folder, Mode::empty()).unwrap();
        }
        let create = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&at, "bottom", create, Mode::RUSR | Mode::WUSR).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The standard library removes trees by recursion with a descriptor a level: too deep for it here.
        let gone = Command::new("rm").arg("-rf").arg(self.path("")).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|status| status.success()));
    }
}

/// Whether this process is root. Says so when not, as the caller leaves something out.
pub(crate) fn is_root(left_out: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("note: not root, so this is not tested here: {left_out}");
    }
    root
}

/// Swaps two names without a moment in which one of them is missing, until the reader is done.
pub(crate) fn while_swapping(first: PathBuf, second: PathBuf, rounds: usize, mut reader: impl FnMut()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &first, CWD, &second, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _stop = SetOnDrop(&done);
        for _ in 0..rounds {
            reader();
        }
    });
}

/// Ends the other thread of a test also when this one panics.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
