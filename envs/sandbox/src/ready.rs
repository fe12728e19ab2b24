//! Waits until a sandbox is ready: its first program prints a mark on the terminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use clawrl_core::{Boundary, Fault};

use crate::readiness::watched;

/// Printed on the terminal by the first program inside when the sandbox is fully set up.
pub(crate) const READY: &str = "\u{1e}clawrl-ready\u{1e}";

/// A sandbox that is not ready by then is abandoned. Generous, because a loaded machine starts hundreds at once.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Bubblewrap's report and its error messages are far smaller; more output comes from something else.
const MAX_PREAMBLE_BYTES: usize = 16 * 1024;

/// Reads the terminal up to the mark, nothing beyond, and returns what came before.
///
/// # Errors
/// A transient provider [`Fault`] with the output that came instead of the mark.
pub(crate) async fn until_ready(terminal: OwnedFd) -> Result<(OwnedFd, String), Fault> {
    tokio::time::timeout(START_LIMIT, read_to_mark(terminal)).await.unwrap_or_else(|_| {
        let message = format!("a sandbox did not start within {} s", START_LIMIT.as_secs());
        Err(Fault::transient(Boundary::Provider, "start-timeout", message))
    })
}

async fn read_to_mark(terminal: OwnedFd) -> Result<(OwnedFd, String), Fault> {
    let failed = |error: io::Error| Fault::transient(Boundary::Provider, "terminal", error.to_string());
    let terminal = watched(terminal).map_err(failed)?;
    let mut preamble = Vec::new();
    let mut chunk = [0u8; READY.len()];
    loop {
        // At most as many bytes as the mark still lacks, so that nothing behind it is read.
        let wanted = READY.len() - begun(&preamble, READY.as_bytes());
        let mut ready = terminal.readable().await.map_err(failed)?;
        let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref().as_fd(), &mut chunk[..wanted])?));
        match read {
            Ok(Ok(read)) if read > 0 => preamble.extend_from_slice(&chunk[..read]),
            // A terminal without processes returns EIO, or end of file.
            Ok(Ok(_)) => return Err(not_started(&preamble)),
            Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Err(not_started(&preamble)),
            Ok(Err(error)) => return Err(failed(error)),
            Err(_would_block) => continue,
        }
        if let Some(before) = preamble.strip_suffix(READY.as_bytes()) {
            return Ok((terminal.into_inner(), String::from_utf8_lossy(before).into_owned()));
        }
        if preamble.len() > MAX_PREAMBLE_BYTES {
            return Err(not_started(&preamble));
        }
    }
}

/// Length of the longest suffix of `text` that is a proper prefix of `mark`.
fn begun(text: &[u8], mark: &[u8]) -> usize {
    (1..mark.len()).rev().find(|&length| text.ends_with(&mark[..length])).unwrap_or(0)
}

/// The fault for a sandbox that printed this instead of the mark.
pub(crate) fn not_started(said: &[u8]) -> Fault {
    let said = String::from_utf8_lossy(said);
    // Bubblewrap's report may have come before the error message.
    let said = said.rsplit('}').next().unwrap_or_default().trim();
    let said: String = said.chars().take(500).collect();
    let (code, hint) = if said.contains("No space left") || said.contains("Cannot allocate") {
        ("host-exhausted", "; the machine is out of namespaces or memory: lower the concurrency")
    } else {
        ("sandbox-start", "; `clawrl doctor` checks what a sandbox needs")
    };
    Fault::transient(Boundary::Provider, code, format!("the sandbox did not start: {said}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_output_is_kept() {
        let fault =
            not_started(b"{\"child-pid\": 1}\r\nbwrap: Can't mkdir /work: No space left on device\r\n");
        assert_eq!(fault.code, "host-exhausted");
        assert!(fault.message.contains("Can't mkdir /work"), "{}", fault.message);
    }

    #[test]
    fn a_mark_is_never_read_past() {
        let check =
            |text: &str, expected: usize| assert_eq!(begun(text.as_bytes(), b"abac"), expected, "{text}");
        check("", 0);
        check("xa", 1);
        check("xaba", 3);
        check("ababa", 3);
        check("abab", 2);
        check("abax", 0);
    }
}
