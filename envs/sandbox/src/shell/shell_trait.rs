//! The interface of a shell session, on this machine or on the machine of its sandbox.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::BoxFuture;

use super::session::ShellSession;
use super::signal::{DirectKiller, JobSignal};
use super::step::{ShellConfig, ShellError, StepLimits, StepOutput};
use crate::Terminal;
use crate::pty::Pty;

/// Result of a step.
pub type StepResult = Result<StepOutput, ShellError>;

/// A persistent shell that takes one step at a time. Each method is that of [`ShellSession`], with the same errors.
///
/// Cancellation: by the token of the limits. After a dropped step the shell can only be dropped.
pub trait Shell: Send + Sync {
    /// See [`ShellSession::run`].
    fn run<'a>(&'a mut self, command: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::send_keys`].
    fn send_keys<'a>(&'a mut self, keys: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::send_text`].
    fn send_text<'a>(&'a mut self, text: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::wait`].
    fn wait<'a>(&'a mut self, duration: Duration, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::signal`].
    fn signal<'a>(&'a mut self, signal: JobSignal, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::drop_line`].
    fn drop_line<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// See [`ShellSession::renew`].
    fn renew<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult>;

    /// The recording so far, as asciicast v2; empty if it was lost with its machine.
    fn cast(&mut self) -> BoxFuture<'_, String>;
}

impl Shell for ShellSession {
    fn run<'a>(&'a mut self, command: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::run(self, command, limits))
    }

    fn send_keys<'a>(&'a mut self, keys: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::send_keys(self, keys, limits))
    }

    fn send_text<'a>(&'a mut self, text: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::send_text(self, text, limits))
    }

    fn wait<'a>(&'a mut self, duration: Duration, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::wait(self, duration, limits))
    }

    fn signal<'a>(&'a mut self, signal: JobSignal, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::signal(self, signal, limits))
    }

    fn drop_line<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::drop_line(self, limits))
    }

    fn renew<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(Self::renew(self, limits))
    }

    fn cast(&mut self) -> BoxFuture<'_, String> {
        let cast = Self::cast(self);
        Box::pin(async move { cast })
    }
}

impl Terminal {
    /// The terminal's master.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::Unsupported`] for a terminal on another machine.
    pub fn master(self) -> std::io::Result<OwnedFd> {
        match self {
            Self::Local(master) => Ok(master),
            Self::Remote(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits for the first prompt of the bash on this terminal, as [`ShellSession::start`]. Jobs are signalled by the
    /// process that holds the terminal: this one, or one on the other machine.
    ///
    /// # Errors
    /// As there.
    pub async fn shell(
        self,
        config: ShellConfig,
        limits: StepLimits<'_>,
    ) -> Result<Box<dyn Shell>, ShellError> {
        match self {
            Self::Local(master) => {
                let pty = Pty::from_master(master)?;
                let session = ShellSession::start(pty, config, Arc::new(DirectKiller), limits).await?;
                Ok(Box::new(session))
            }
            Self::Remote(terminal) => terminal.shell(config, limits).await,
        }
    }
}
