//! A terminal that belongs to the container.
//!
//! It is opened in the container's devpts, so that programs find it under `/dev/pts`. The engine mounted it, and no
//! program of the agent runs yet.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, OFlags, Uid, fchown, fstatfs};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::Winsize;

use super::root::ContainerRoot;

/// `DEVPTS_SUPER_MAGIC`.
const DEVPTS: u64 = 0x1cd1;

/// Opens a terminal owned by this host user id; returns both ends, the harness's first.
pub(super) fn open(root: &ContainerRoot, size: (u16, u16), owner: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = root
        .resolve("/dev/pts/ptmx", OFlags::RDWR | OFlags::NOCTTY)
        .map_err(|error| io::Error::other(format!("failed to open the container's terminals: {error}")))?;
    if fstatfs(&master)?.f_type as u64 != DEVPTS {
        return Err(io::Error::other("/dev/pts of the container is not a terminal file system"));
    }
    unlockpt(&master)?;
    let terminal =
        ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    let (columns, rows) = size;
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size)?;
    fchown(terminal.as_fd(), Some(Uid::from_raw(owner)), None::<Gid>)?;
    Ok((master, terminal))
}
