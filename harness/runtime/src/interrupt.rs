//! Maps signals to requests to drain or cancel a run.
//!
//! | heard | wanted |
//! |---|---|
//! | Ctrl-C (SIGINT) once | finish what runs, start nothing |
//! | Ctrl-C twice | cancel what runs; everything is closed and recorded |
//! | SIGTERM, SIGHUP | the same, at once |
//!
//! I1. Requests only get stronger. I2. Everything is closed after any number of signals; only SIGKILL leaves that to the spawner.
//! I3. A limit on file sizes is an error of a write, like a full disk, and does not end the process.

use std::io;
use std::sync::Arc;

use clawrl_scheduler::Interrupt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::progress::Progress;

/// The effect of the first Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstInterrupt {
    /// Running attempts finish, and their results are kept.
    Drain,
    /// Running attempts are cancelled: there is nothing to keep.
    Cancel,
}

/// Registered signal handlers.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Never read: its registration keeps the signal from ending the process.
    _file_too_large: Signal,
}

impl Signals {
    /// Registers the handlers; from now on the signals no longer end the process. Needs a runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Listens until it is dropped.
    pub async fn listen(
        mut self,
        first: FirstInterrupt,
        wanted: watch::Sender<Interrupt>,
        progress: Arc<dyn Progress>,
    ) {
        let mut now = Interrupt::None;
        loop {
            let next = tokio::select! {
                Some(()) = self.interrupt.recv() => after_ctrl_c(now, first),
                Some(()) = self.terminate.recv() => Interrupt::CancelAll,
                Some(()) = self.hang_up.recv() => Interrupt::CancelAll,
                else => return,
            };
            progress.note(format_args!("{}", said(now, next)));
            now = now.max(next);
            wanted.send_replace(now);
        }
    }
}

fn after_ctrl_c(now: Interrupt, first: FirstInterrupt) -> Interrupt {
    match (now, first) {
        (Interrupt::None, FirstInterrupt::Drain) => Interrupt::Drain,
        _ => Interrupt::CancelAll,
    }
}

fn said(now: Interrupt, next: Interrupt) -> &'static str {
    match (now, next) {
        (Interrupt::CancelAll, _) => "already cancelling: everything is being closed",
        (_, Interrupt::CancelAll) => "cancelling: what runs is closed and recorded as cancelled",
        (_, Interrupt::Drain | Interrupt::None) => {
            "finishing what runs and starting nothing more; Ctrl-C again cancels it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_get_stronger() {
        let check = |now, first, expected| assert_eq!(after_ctrl_c(now, first), expected);
        check(Interrupt::None, FirstInterrupt::Drain, Interrupt::Drain);
        check(Interrupt::Drain, FirstInterrupt::Drain, Interrupt::CancelAll);
        check(Interrupt::CancelAll, FirstInterrupt::Drain, Interrupt::CancelAll);
        check(Interrupt::None, FirstInterrupt::Cancel, Interrupt::CancelAll);
    }
}
