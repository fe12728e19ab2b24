//! What root inside may do beyond what anybody may.
//!
//! Enough to be the root that package managers, archives and services expect: own and change any file of the container,
//! become any of its users, signal any of its processes, listen on a low port of its own network. Left out of what engines
//! give by default: device nodes, raw sockets, `chroot`, the audit log, further capabilities of files and of processes.

/// Names as an engine takes them, and numbers as the kernel counts them.
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

/// One that the first process has alone. It uses none; but the kernel lets nobody trace or write a process that may do
/// more, so no program inside can make the first one end.
pub const FIRST_PROCESS_ONLY: &str = "SYS_CHROOT";

/// All of [`KEPT`], one bit each.
#[must_use]
pub fn bits() -> u64 {
    KEPT.iter().fold(0, |bits, (_, number)| bits | 1 << number)
}
