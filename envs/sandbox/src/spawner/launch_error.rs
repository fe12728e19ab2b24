//! Why a program was never run, reported by its launcher to the harness.
//!
//! It uses its own pipe: a program may end with any exit code, and may write anything to its standard error.
//! I1. No program ever holds the writing end. It belongs to the launcher, and to its child until exec, which closes it;
//! nothing inside can look into either before that.
//! I2. If an error was reported, no program was run; an empty pipe does not prove that one was.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::exec_error::NotRun;

/// Maximum characters of a message. All of it fits into a pipe at once, so that reporting never blocks.
const MESSAGE_CHARS: usize = 500;

/// Maximum bytes of one, written as JSON.
pub(crate) const MAX_BYTES: usize = 4096;

/// The kind of failure, and its message.
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

    /// A step that followed a path inside failed. A wrong path is attributed to the inside; any other error, such as a
    /// lack of memory, is not.
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

    /// Parses what was reported; `None` if nothing was.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        let unclear = || Self {
            not_run: NotRun::Launcher,
            message: format!("the launcher reported {:?}", String::from_utf8_lossy(bytes)),
        };
        Some(serde_json::from_slice(bytes).unwrap_or_else(|_| unclear()))
    }
}

/// The writing end, if there is one.
#[derive(Debug)]
pub(super) struct LaunchErrorPipe(Option<OwnedFd>);

impl LaunchErrorPipe {
    /// Takes over the descriptor that the spawner passed on, by its number; the next exec closes it.
    pub(super) fn take(number: Option<&str>) -> io::Result<Self> {
        let Some(number) = number else { return Ok(Self(None)) };
        let number: RawFd = number.parse().ok().filter(|number| *number > 2).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "invalid descriptor for launch errors")
        })?;
        // SAFETY: the spawner opened it for this process alone and names it once, so nothing else here owns it. If it
        // were not open, every use would be an error, and reporting ignores errors.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(Some(fd)))
    }

    pub(super) fn number(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Reports it, if there is a pipe. Uses one system call and no locks, because this may be a forked child.
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
    fn path_errors_differ_from_machine_errors() {
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::LOOP, Errno::NOEXEC] {
            assert_eq!(of_path(errno), NotRun::Program, "{errno}");
        }
        for errno in [Errno::NOMEM, Errno::AGAIN, Errno::IO, Errno::MFILE] {
            assert_eq!(of_path(errno), NotRun::Launcher, "{errno}");
        }
    }

    #[test]
    fn reported_error_fits_pipe_and_reads_back() {
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        let long = LaunchError { not_run: NotRun::Folder, message: "\u{1}".repeat(100_000) };
        LaunchErrorPipe(Some(writing)).tell(&long);
        let mut bytes = vec![0; MAX_BYTES];
        let count = rustix::io::read(&reading, &mut bytes).unwrap();
        let read = LaunchError::read(&bytes[..count]).unwrap();
        assert_eq!((read.not_run, read.message.len()), (NotRun::Folder, MESSAGE_CHARS));
        // No process holds the writing end any more.
        assert_eq!(rustix::io::read(&reading, &mut bytes), Ok(0));
        assert_eq!(LaunchError::read(b""), None);
        assert_eq!(LaunchError::read(b"{").unwrap().not_run, NotRun::Launcher);
    }
}
