//! TIOCSIG: signals the foreground group, which the kernel determines at that instant.
//!
//! The only unsafe code of the terminal. rustix has no wrapper for this ioctl.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::ioctl::{IntegerSetter, Opcode, ioctl, opcode};
use rustix::process::Signal;

/// `_IOW('T', 0x36, int)`. The argument is passed by value.
const TIOCSIG: Opcode = opcode::write::<i32>(b'T', 0x36);

/// Sends INT, QUIT or TSTP; the kernel refuses others with EINVAL.
pub(super) fn send(master: BorrowedFd<'_>, signal: Signal) -> rustix::io::Result<()> {
    let number = signal.as_raw().unsigned_abs() as usize;
    // SAFETY: TIOCSIG takes an integer by value and dereferences nothing; any integer is in range, because the
    // kernel checks it. The descriptor is borrowed for the call.
    unsafe { ioctl(master, IntegerSetter::<TIOCSIG>::new_usize(number)) }
}
