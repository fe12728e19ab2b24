//! The clock of the recorder.

use std::fmt;

/// Gives the time. Tests have their own.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Unix time in milliseconds.
    fn now_ms(&self) -> i64;
}

/// The machine's clock. It may go backwards; no recorded order depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}
