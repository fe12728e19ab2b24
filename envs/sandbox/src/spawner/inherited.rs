//! Descriptors that were open when the spawner started.
//!
//! Whoever started the harness may have left some open without close-on-exec: a lock of a shell script, a log, a socket.
//! They would be handed on to every program in every sandbox, readable and writable as they are.

#![allow(unsafe_code)]

use std::io;

/// Lets every descriptor but the three standard ones end with this program.
///
/// # Errors
/// When /proc does not say which there are.
pub fn close_inherited_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        for number in number.into_iter().filter(|&number| number > 2) {
            // SAFETY: only a flag of a descriptor is set; one that is closed by now gives an error and nothing else.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
