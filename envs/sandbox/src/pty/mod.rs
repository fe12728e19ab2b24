//! Pseudo-terminals, from the side that holds the master.

mod master;
mod signal_ioctl;

pub use master::{LineMode, Pty, PtyRead};
