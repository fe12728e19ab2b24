//! What a person wants who does not write it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// The terminal is gone, or a signal ends the program.
    End,
}

/// Signals, from the moment at which this is made.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Needs a runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::End,
            _ = self.hang_up.recv() => StopSignal::End,
        }
    }

    /// What comes of this, unless something is heard before.
    pub(super) async fn unless_heard<T>(&mut self, work: impl Future<Output = T>) -> Result<T, StopSignal> {
        tokio::select! {
            biased;
            heard = self.next() => Err(heard),
            done = work => Ok(done),
        }
    }
}
