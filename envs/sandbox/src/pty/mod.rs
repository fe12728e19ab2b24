//! Pseudo-terminals, seen from the master side.

mod master;
mod signal_ioctl;

pub use master::{LineMode, Pty, PtyRead};
