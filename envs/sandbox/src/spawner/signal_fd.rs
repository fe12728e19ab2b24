//! Child-exit notifications as a readable descriptor.
//!
//! The only place of the spawner with foreign calls: `signalfd` has no safe wrapper in the crates that are used.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks SIGCHLD for this process (it has one thread) and returns a non-blocking descriptor that becomes readable when
/// a child ends. Children start with an empty mask again: both portable-pty and the standard library's `Command` reset
/// it.
pub(super) fn child_exits() -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before any other use; all pointers are valid for the call.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        if libc::sigemptyset(&mut set) != 0
            || libc::sigaddset(&mut set, libc::SIGCHLD) != 0
            || libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and has no other owner.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Borrows a descriptor that portable-pty owns, as long as `owner` lives.
pub(super) fn borrow_master(owner: &dyn portable_pty::MasterPty) -> Option<std::os::fd::BorrowedFd<'_>> {
    let raw = owner.as_raw_fd()?;
    // SAFETY: `owner` keeps the descriptor open, and the borrow cannot outlive it.
    Some(unsafe { std::os::fd::BorrowedFd::borrow_raw(raw) })
}
