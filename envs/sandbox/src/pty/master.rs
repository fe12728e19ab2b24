//! The master side of a pseudo-terminal, read and written through the runtime's reactor.
//!
//! P1. No thread per terminal: the descriptor is non-blocking and waits in epoll.
//! P2. A hang-up (EIO, or end of file) is a state, never an error.
//! P3. Questions about the slave (foreground group, line discipline) are asked of the kernel on the master, so that no
//! program in the terminal can answer them.
//!
//! Errors: `std::io::Error` of the system call. Cancellation: every future here may be dropped; bytes that were read or
//! written stay read or written.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};
use rustix::termios::{InputModes, LocalModes, OptionalActions, OutputModes, Winsize};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::signal_ioctl;
use crate::readiness::watched_for;

/// The master of a pseudo-terminal. Closing it (dropping) hangs the slave up.
#[derive(Debug)]
pub struct Pty {
    master: AsyncFd<OwnedFd>,
    /// The same terminal, watched for writability. Created when a write first blocks: otherwise every byte that a
    /// program takes from its input would wake the runtime.
    writer: OnceLock<AsyncFd<OwnedFd>>,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PtyRead {
    /// This many bytes, at least one.
    Bytes(usize),
    /// No bytes available now.
    Empty,
    /// No process has the slave open any more. Nothing more will come.
    HungUp,
}

/// How the slave's line discipline treats input at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMode {
    /// The kernel collects input into lines. Line editors and full-screen programs turn this off.
    pub canonical: bool,
    /// A carriage return is added before each newline of the output.
    pub processes_output: bool,
    /// The kernel echoes input.
    pub echo: bool,
    /// A carriage return in the input becomes a newline.
    pub maps_returns: bool,
}

impl Pty {
    /// Takes over a master and makes it non-blocking. Must be called within a tokio runtime with I/O enabled.
    ///
    /// # Errors
    /// When the descriptor cannot be made non-blocking or be registered with the reactor.
    pub fn from_master(master: OwnedFd) -> io::Result<Self> {
        Ok(Self { master: watched_for(master, Interest::READABLE)?, writer: OnceLock::new() })
    }

    /// Reads at least one byte, waiting for it; `PtyRead::Empty` is never returned.
    ///
    /// # Errors
    /// Those of read(2), except that EIO is a hang-up.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<PtyRead> {
        loop {
            let mut guard = self.master.readable().await?;
            match self.try_read(buffer)? {
                PtyRead::Empty => guard.clear_ready(),
                got => return Ok(got),
            }
        }
    }

    /// Writes everything, waiting while the slave's input queue is full.
    ///
    /// A program that never reads keeps this waiting for ever, and one whose output is not read may never start to
    /// read: run it beside [`Pty::read`], or under a deadline. [`crate::ShellSession`] does both.
    ///
    /// # Errors
    /// Those of write(2).
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        bytes = &bytes[self.try_write(bytes)?..];
        while !bytes.is_empty() {
            let mut guard = self.writable().await?;
            match self.try_write(bytes)? {
                0 => guard.clear_ready(),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Sets the size. If it differs, the foreground group gets a signal.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(&self.master, size)?)
    }

    /// The foreground process group, as numbered for this process; `None` when the terminal has no session any more.
    #[must_use]
    pub fn foreground_group(&self) -> Option<Pid> {
        rustix::termios::tcgetpgrp(&self.master).ok()
    }

    /// The current mode of the slave's line discipline.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub fn line_mode(&self) -> io::Result<LineMode> {
        // On Linux the master answers for the slave.
        let settings = rustix::termios::tcgetattr(&self.master)?;
        Ok(LineMode {
            canonical: settings.local_modes.contains(LocalModes::ICANON),
            processes_output: settings.output_modes.contains(OutputModes::OPOST),
            echo: settings.local_modes.contains(LocalModes::ECHO),
            maps_returns: settings.input_modes.contains(InputModes::ICRNL),
        })
    }

    /// Makes the kernel collect input into lines, echo it and handle its signal keys, as in a new terminal. A line
    /// editor that was killed leaves that off.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub fn gather_lines(&self) -> io::Result<()> {
        let mut settings = rustix::termios::tcgetattr(&self.master)?;
        settings.input_modes |= InputModes::ICRNL;
        settings.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        settings.local_modes |= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        rustix::termios::tcsetattr(&self.master, OptionalActions::Now, &settings)?;
        Ok(())
    }

    /// Signals the foreground group through the terminal, without a process id that could have been reused: INT, QUIT
    /// and TSTP only. Returns `false` for other signals, which were not sent.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub fn signal_foreground(&self, signal: Signal) -> io::Result<bool> {
        if ![Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal) {
            return Ok(false);
        }
        signal_ioctl::send(self.master.as_fd(), signal)?;
        Ok(true)
    }

    /// Waits until written input has reached the terminal's reader. A kernel worker transfers it, which takes
    /// microseconds, and on a loaded machine as long as any thread may wait for a processor.
    ///
    /// Best effort: if the slave cannot be opened, it returns at once. The opposite direction does not need this: a
    /// read that finds nothing waits for the worker of its own direction.
    pub(crate) fn deliver_input(&self) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        if let Ok(slave) = ioctl_tiocgptpeer(&self.master, flags) {
            // The question itself does not matter: the line discipline waits for the worker before it answers that
            // there is no input (`n_tty_poll` of Linux), and takes none.
            let _ = poll(&mut [PollFd::new(&slave, PollFlags::IN)], Some(&Timespec::default()));
        }
    }

    /// Waits until there may be something to read. Clear the guard's readiness when there is not.
    pub(crate) async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.master.readable().await
    }

    /// Waits until there may be room to write. Clear the guard's readiness when there is not.
    pub(crate) async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        let writer = match self.writer.get() {
            Some(writer) => writer,
            None => {
                let same = rustix::io::fcntl_dupfd_cloexec(&self.master, 0)?;
                let fresh = watched_for(same, Interest::WRITABLE)?;
                self.writer.get_or_init(|| fresh)
            }
        };
        writer.writable().await
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<PtyRead> {
        loop {
            return match rustix::io::read(&self.master, &mut *buffer) {
                Ok(0) | Err(Errno::IO) => Ok(PtyRead::HungUp),
                Ok(count) => Ok(PtyRead::Bytes(count)),
                Err(Errno::AGAIN) => Ok(PtyRead::Empty),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Writes what fits without waiting; 0 when nothing fits.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            return match rustix::io::write(&self.master, bytes) {
                Ok(count) => Ok(count),
                Err(Errno::AGAIN) => Ok(0),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }
}
