//! Why a program was never run, from its launcher to the harness.
//!
//! A pipe of its own: a program may end with any exit code, and may write anything to its standard error.
//! I1. No program ever holds the writing end. It is the launcher's, and its child's until exec, which closes it; neither
//! can be looked into from inside before that. I2. Whatever was told, no program was run; nothing told says that one was.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::NotRun;

/// Characters of a message. All of it fits into a pipe at once, so that telling never waits.
const MESSAGE_CHARS: usize = 500;

/// Most bytes of one, written as JSON.
pub(crate) const MAX_BYTES: usize = 4096;

/// What stood in the way, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchError {
    pub(crate) not_run: NotRun,
    pub(crate) message: String,
}

impl LaunchError {
    /// A step of the launcher itself failed.
    pub(super) fn of_launcher(error: &io::Error) -> Self {
        Self { not_run: NotRun::Launcher, message: error.to_string() }
    }

    /// A step failed for which a path inside was followed. What is wrong with the path is a matter of the inside;
    /// anything else, such as a want of memory, is not.
    pub(super) fn of_path(not_run: NotRun, path: &std::path::Path, error: &io::Error) -> Self {
        const PATH_IS_WRONG: [Errno; 9] = [
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::ACCESS,
            Errno::PERM,
            Errno::LOOP,
            Errno::NAMETOOLONG,
            Errno::NOEXEC,
            Errno::LIBBAD,
        ];
        let is_wrong = error
            .raw_os_error()
            .is_none_or(|number| PATH_IS_WRONG.iter().any(|errno| errno.raw_os_error() == number));
        let what = if not_run == NotRun::Folder { "folder" } else { "cannot run" };
        Self {
            not_run: if is_wrong { not_run } else { NotRun::Launcher },
            message: format!("{what} {}: {error}", path.display()),
        }
    }

    /// What was told; `None` where nothing was.
    pub(crate) fn read(told: &[u8]) -> Option<Self> {
        if told.is_empty() {
            return None;
        }
        let unclear = || Self {
            not_run: NotRun::Launcher,
            message: format!("the launcher said {:?}", String::from_utf8_lossy(told)),
        };
        Some(serde_json::from_slice(told).unwrap_or_else(|_| unclear()))
    }
}

/// The writing end, where there is one.
#[derive(Debug)]
pub(super) struct LaunchErrorPipe(Option<OwnedFd>);

impl LaunchErrorPipe {
    /// Takes over the descriptor that the spawner handed on, by its number; it ends with the next exec.
    pub(super) fn take(number: Option<&str>) -> io::Result<Self> {
        let Some(number) = number else { return Ok(Self(None)) };
        let number: RawFd =
            number.parse().ok().filter(|number| *number > 2).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "no descriptor to tell trouble")
            })?;
        // SAFETY: the spawner opened it for this process alone and names it once, so nothing else here owns it. Were it
        // not open, every use of it would be an error, and telling ignores errors.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(Some(fd)))
    }

    pub(super) fn number(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Tells it, unless nobody listens. By one system call, without locks: this may be a forked child.
    pub(super) fn tell(&self, launch_error: &LaunchError) {
        let Some(fd) = &self.0 else { return };
        let message = launch_error.message.chars().take(MESSAGE_CHARS).collect();
        let bytes =
            serde_json::to_vec(&LaunchError { message, not_run: launch_error.not_run }).unwrap_or_default();
        let _ = rustix::io::write(fd, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_path(errno: Errno) -> NotRun {
        LaunchError::of_path(NotRun::Program, "/bin/sh".as_ref(), &errno.into()).not_run
    }

    #[test]
    fn what_is_wrong_with_a_path_is_told_from_what_the_machine_lacks() {
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::LOOP, Errno::NOEXEC] {
            assert_eq!(of_path(errno), NotRun::Program, "{errno}");
        }
        for errno in [Errno::NOMEM, Errno::AGAIN, Errno::IO, Errno::MFILE] {
            assert_eq!(of_path(errno), NotRun::Launcher, "{errno}");
        }
    }

    #[test]
    fn what_is_told_fits_and_is_read_back() {
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        let long = LaunchError { not_run: NotRun::Folder, message: "\u{1}".repeat(100_000) };
        LaunchErrorPipe(Some(writing)).tell(&long);
        let mut told = vec![0; MAX_BYTES];
        let count = rustix::io::read(&reading, &mut told).unwrap();
        let read = LaunchError::read(&told[..count]).unwrap();
        assert_eq!((read.not_run, read.message.len()), (NotRun::Folder, MESSAGE_CHARS));
        // Nobody holds the writing end any more.
        assert_eq!(rustix::io::read(&reading, &mut told), Ok(0));
        assert_eq!(LaunchError::read(b""), None);
        assert_eq!(LaunchError::read(b"{").unwrap().not_run, NotRun::Launcher);
    }
}
