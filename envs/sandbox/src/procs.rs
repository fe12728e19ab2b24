//! Processes: facts from /proc, and killing by handle.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::ProcessFacts;

/// The fields of `/proc/<pid>/stat` that we need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) parent: u32,
    /// Start time in clock ticks since boot. Together with the id it identifies a process permanently.
    pub(crate) start_ticks: u64,
    /// Whether it has ended and waits to be reaped.
    pub(crate) zombie: bool,
    /// Whether it is stopped by a signal.
    pub(crate) stopped: bool,
}

impl ProcessStat {
    /// Reads it; `None` when the process does not exist.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in parentheses may contain parentheses and spaces; the last `)` ends it.
    fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let (zombie, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        let parent = fields.next()?.parse().ok()?;
        // Field 22 of the file; two of the fields after the name are consumed.
        let start_ticks = fields.nth(17)?.parse().ok()?;
        Some(Self { parent, start_ticks, zombie, stopped })
    }
}

/// The command line, arguments joined by spaces; empty for kernel threads and zombies.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_end_matches('\0').replace('\0', " ")
}

/// All process ids of the host.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a check and a kill need to know about a process; `None` if it has ended.
pub(crate) fn facts(pid: u32) -> Option<ProcessFacts> {
    let stat = ProcessStat::read(pid).filter(|stat| !stat.zombie)?;
    Some(ProcessFacts {
        host_pid: pid,
        host_parent: stat.parent,
        start_ticks: stat.start_ticks,
        command_line: command_line(pid),
    })
}

/// The children of a process that have not ended.
pub(crate) fn children(parent: u32) -> impl Iterator<Item = ProcessFacts> {
    all().into_iter().filter_map(facts).filter(move |process| process.host_parent == parent)
}

pub(crate) fn is_alive(process: &ProcessFacts) -> bool {
    ProcessStat::read(process.host_pid)
        .is_some_and(|stat| stat.start_ticks == process.start_ticks && !stat.zombie)
}

/// A handle that stays bound to this process, even if the id is reused.
pub(crate) fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Kills processes by handle, each only if it is still the same process.
pub(crate) fn kill_each<'a>(victims: impl Iterator<Item = &'a ProcessFacts>) {
    signal_each(victims, Signal::KILL);
}

/// Signals processes by handle, each only if it is still the same process.
pub(crate) fn signal_each<'a>(seen: impl Iterator<Item = &'a ProcessFacts>, signal: Signal) {
    for process in seen {
        let Some(handle) = open(process.host_pid) else { continue };
        if ProcessStat::read(process.host_pid).is_some_and(|stat| stat.start_ticks == process.start_ticks) {
            let _ = pidfd_send_signal(handle.as_fd(), signal);
        }
    }
}

/// Kills the process that has this id now. Only for ids that cannot have been reused.
pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Signals the process that has this id now. Only for ids that cannot have been reused.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(handle) = open(pid) {
        // ESRCH: it has already ended.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Kills a process together with its children, one of which it may be about to create.
///
/// It is stopped first, so that no child is created between listing the children and killing it: a child of bubblewrap
/// that loses its parent in its first moments would wait for it for ever. Blocks for some milliseconds. Only for ids
/// that cannot have been reused.
pub(crate) fn kill_with_children(parent: u32) {
    stop(parent);
    for child in all() {
        if ProcessStat::read(child).is_some_and(|stat| stat.parent == parent) {
            kill(child);
        }
    }
    kill(parent);
}

/// Stops a process and waits until it is stopped. Blocks. Only for ids that cannot have been reused.
pub(crate) fn stop(pid: u32) {
    let Some(handle) = open(pid) else { return };
    let _ = pidfd_send_signal(&handle, Signal::STOP);
    let until = Instant::now() + STOP_LIMIT;
    while ProcessStat::read(pid).is_some_and(|stat| !stat.stopped && !stat.zombie) && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// A process stops when its system call returns, which takes microseconds.
const STOP_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_shift_fields() {
        let line = "12 (a ) R 1 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let expected = ProcessStat { parent: 7, start_ticks: 987_654, zombie: false, stopped: false };
        assert_eq!(ProcessStat::parse(line), Some(expected));
        assert_eq!(ProcessStat::parse("12 (a"), None);
    }

    #[test]
    fn we_exist() {
        let stat = ProcessStat::read(std::process::id()).unwrap();
        assert!(stat.start_ticks > 0 && !stat.zombie && stat.parent > 0);
        assert!(all().contains(&std::process::id()));
        assert!(!command_line(std::process::id()).is_empty());
    }
}
