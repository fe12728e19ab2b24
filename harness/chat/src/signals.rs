//! Signals that stop an answer or the conversation.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// The terminal closed, or a signal ends the program.
    End,
}

/// Receives signals from its creation on.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Registers the handlers. Needs a runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(super) fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::End,
            _ = self.hang_up.recv() => StopSignal::End,
        }
    }

    /// Runs `work` unless a signal arrives first.
    pub(super) async fn unless_heard<T>(&mut self, work: impl Future<Output = T>) -> Result<T, StopSignal> {
        tokio::select! {
            biased;
            heard = self.next() => Err(heard),
            done = work => Ok(done),
        }
    }
}
