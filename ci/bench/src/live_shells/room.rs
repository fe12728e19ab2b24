//! Whether so many shells fit on this machine. Refuses before the first is started, and names the limit.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::census::memory_available_kib;
use crate::terminals::Failure;

/// What a shell in its sandbox takes at most, generously: processes of all (bubblewrap's two and bash), descriptors of
/// ours (terminal, workspace, process), and memory.
const PROCESSES_EACH: u64 = 3;
const OPEN_FILES_EACH: u64 = 4;
const KIB_EACH: u64 = 4 * 1024;

/// Left for the rest of the machine.
const SPARE_PROCESSES: u64 = 500;
const SPARE_OPEN_FILES: u64 = 200;
const SPARE_KIB: u64 = 512 * 1024;
const SPARE_TERMINALS: u64 = 8;

/// Makes what room it can (the soft limit of descriptors), and checks the rest.
pub(super) fn check(shells: u32) -> Result<(), Failure> {
    let shells = u64::from(shells);
    let open_files = raised_open_files();
    let running = running();
    let limits = [
        (
            "pseudo-terminals: kernel.pty.max",
            number("/proc/sys/kernel/pty/max")
                .map(|max| max - number("/proc/sys/kernel/pty/nr").unwrap_or(0)),
            shells + SPARE_TERMINALS,
        ),
        (
            "process ids: kernel.pid_max",
            number("/proc/sys/kernel/pid_max").map(|max| max.saturating_sub(running)),
            shells * PROCESSES_EACH + SPARE_PROCESSES,
        ),
        (
            "processes and threads: kernel.threads-max",
            number("/proc/sys/kernel/threads-max").map(|max| max.saturating_sub(running)),
            shells * PROCESSES_EACH + SPARE_PROCESSES,
        ),
        (
            "processes of this user: ulimit -u",
            own_processes(running),
            shells * PROCESSES_EACH + SPARE_PROCESSES,
        ),
        (
            "namespaces of a user: user.max_user_namespaces",
            number("/proc/sys/user/max_user_namespaces"),
            shells * 2,
        ),
        ("open files: ulimit -Hn", Some(open_files), shells * OPEN_FILES_EACH + SPARE_OPEN_FILES),
        ("KiB of memory: MemAvailable", memory_available_kib(), shells * KIB_EACH + SPARE_KIB),
    ];
    let refusals: Vec<String> = limits
        .into_iter()
        .filter_map(|(what, free, needed)| {
            free.filter(|&free| free < needed).map(|free| (what, free, needed))
        })
        .map(|(what, free, needed)| format!("{what} leaves {free}, {needed} are needed"))
        .collect();
    if refusals.is_empty() {
        return Ok(());
    }
    Err(format!("{shells} shells do not fit here: {}; ask for fewer with --shells", refusals.join("; "))
        .into())
}

/// The soft limit is a courtesy to programs that use select(2); we do not.
fn raised_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Without it the check below says what is missing.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit of one user does not bind root, whose sandboxes have users of their own.
fn own_processes(running: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nproc).current?;
    (!rustix::process::geteuid().is_root()).then(|| limit.saturating_sub(running))
}

/// Threads of the whole machine.
fn running() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').nth(3).and_then(|field| field.split_once('/')?.1.parse().ok()).unwrap_or(0)
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
