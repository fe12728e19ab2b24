//! What time it is.

use std::fmt;

/// Tells the time to whoever records. Tests own theirs.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Unix time in milliseconds.
    fn now_ms(&self) -> i64;
}

/// The machine's clock. It may go backwards; nothing that is recorded relies on it for order.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}
