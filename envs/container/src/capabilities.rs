//! Capabilities of root inside a container.
//!
//! Enough for package managers, archivers and services that expect root: own and change any file of the container,
//! switch to any of its users, signal any of its processes, listen on a low port of its own network. Left out of the
//! engines' defaults: device nodes, raw sockets, `chroot`, the audit log, further capabilities of files and of
//! processes.

/// Names as an engine takes them, and the kernel's numbers.
pub const KEPT: &[(&str, u32)] = &[
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("FOWNER", 3),
    ("FSETID", 4),
    ("KILL", 5),
    ("SETGID", 6),
    ("SETUID", 7),
    ("NET_BIND_SERVICE", 10),
];

/// Held by the first process alone, which does not use it. The kernel forbids tracing or writing to a process with more
/// capabilities than the caller, so no program inside can make the first one end.
pub const FIRST_PROCESS_ONLY: &str = "SYS_CHROOT";

/// All of [`KEPT`], one bit each.
#[must_use]
pub fn bits() -> u64 {
    KEPT.iter().fold(0, |bits, (_, number)| bits | 1 << number)
}
