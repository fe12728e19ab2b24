//! Registering a descriptor with the runtime.
//!
//! The only place that does so: tokio's constructor is unsafe for types in general, because a type may hand out a
//! different descriptor each time. An [`OwnedFd`] never does.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes a descriptor non-blocking and registers it. Call inside a runtime with I/O enabled.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watched_for(fd, Interest::READABLE | Interest::WRITABLE)
}

/// The same for one kind of readiness, so that the other kind causes no wake-ups.
pub(crate) fn watched_for(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an OwnedFd keeps one descriptor open until it is dropped and always returns the same one; it cannot be
    // replaced inside the AsyncFd, which gives out shared references only.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}
