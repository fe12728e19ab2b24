//! Descriptors that were open when the spawner started.
//!
//! The program that started the harness may have left some open without close-on-exec: a lock of a shell script, a log,
//! a socket. Every program in every sandbox would inherit them, readable and writable.

#![allow(unsafe_code)]

use std::io;

/// Sets close-on-exec on every descriptor except the three standard ones.
///
/// # Errors
/// When /proc does not list them.
pub fn close_inherited_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        for number in number.into_iter().filter(|&number| number > 2) {
            // SAFETY: only a flag of a descriptor is set; if it is closed by now, the call fails without effect.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
