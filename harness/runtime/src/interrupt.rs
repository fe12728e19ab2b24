//! Maps signals to requests to drain or cancel a run.
//!
//! | heard | wanted |
//! |---|---|
//! | Ctrl-C (SIGINT) once | finish what runs, start nothing |
//! | Ctrl-C twice | cancel what runs; everything is closed and recorded |
//! | SIGTERM, SIGHUP | the same, at once |
//!
//! I1. What is wanted only ever gets stronger. I2. However often it is asked, everything is closed: only
//! SIGKILL leaves that to the spawner. I3. A limit on file sizes is an error of a write, like a full disk, and
//! does not end the process.

use std::io;
use std::sync::Arc;

use clawrl_scheduler::Interrupt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::progress::Progress;

/// What the first Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstInterrupt {
    /// Finish what runs: its results are kept.
    Drain,
    /// Cancel: there is nothing to keep.
    Cancel,
}

/// The signals, registered and not yet listened to.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Never looked at: that it is heard is what keeps the process alive.
    _file_too_large: Signal,
}

impl Signals {
    /// Registers them; from now on they no longer end the process. Needs a runtime.
    ///
    /// # Errors
    /// When the system refuses.
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
