//! Whether the foreground job waits for input or works.
//!
//! Silence alone does not tell: a compiler is as silent as an editor, and on a loaded machine everything is. So the
//! state of the foreground group's processes is read, and the system call in which the sleeping ones wait. The
//! terminal's own /proc is used if it is accessible (it lists the sandbox only).
//!
//! This reads a few files of /proc, some microseconds each, on the calling thread; only after a silence, and at
//! intervals that double.
//!
//! Errors: none. Anything unreadable counts as [`Activity::Waiting`], so that a step ends early rather than late.

use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, fstatfs, openat, readlinkat};
use rustix::process::Pid;

/// `PROC_SUPER_MAGIC`. Anything else mounted as /proc could be the agent's doing.
const PROC_MAGIC: u64 = 0x9fa0;
/// Maximum processes inspected; a larger foreground group counts as working.
const MAX_PROCESSES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// Some process runs, or sleeps in a call that does not read input.
    Working,
    /// Nothing runs, and some process may wait for the terminal.
    Waiting,
    /// Nothing runs, and some process is blocked reading the terminal.
    Reading,
}

/// Inspects the foreground of the terminal whose session leader is `shell`.
pub(super) fn foreground_activity(shell: Pid) -> Activity {
    look(shell).unwrap_or(Activity::Waiting)
}

/// Whether the process exists and is neither stopped nor dead.
pub(super) fn is_running(process: Pid) -> bool {
    let stat = open_proc(None, "/proc")
        .and_then(|proc| read_file(&proc, &format!("{}/stat", process.as_raw_nonzero())));
    stat.as_deref().and_then(parse_stat).is_some_and(|stat| !matches!(stat.state, b'T' | b't' | b'Z' | b'X'))
}

/// Whether the process's standard error is something other than a terminal. True if unknown.
pub(super) fn writes_elsewhere(process: Pid) -> bool {
    let target = rustix::fs::readlink(format!("/proc/{}/fd/2", process.as_raw_nonzero()), Vec::new());
    target.map_or(true, |path| !is_terminal(path.to_bytes()))
}

fn look(shell: Pid) -> Option<Activity> {
    let host = open_proc(None, "/proc")?;
    let terminal = parse_stat(&read_file(&host, &format!("{}/stat", shell.as_raw_nonzero()))?)?.terminal;
    // The sandbox's own /proc is small; if it is not accessible, the host's lists the same processes.
    let own = open_proc(Some(&host), &format!("{}/root/proc", shell.as_raw_nonzero()));
    let proc = own.as_ref().unwrap_or(&host);
    let mut activity = None;
    let mut looked_at = 0;
    for entry in Dir::read_from(proc).ok()? {
        let entry = entry.ok()?;
        let Ok(pid) = std::str::from_utf8(entry.file_name().to_bytes()).unwrap_or_default().parse::<i32>()
        else {
            continue;
        };
        let Some(stat) = read_file(proc, &format!("{pid}/stat")).as_deref().and_then(parse_stat) else {
            continue;
        };
        if stat.terminal != terminal || stat.group != stat.foreground {
            continue;
        }
        looked_at += 1;
        if looked_at > MAX_PROCESSES {
            return Some(Activity::Working);
        }
        match process_activity(proc, pid, stat.state) {
            None => {}
            Some(Sleep::Running) => return Some(Activity::Working),
            Some(Sleep::Elsewhere) => activity = activity.or(Some(Activity::Working)),
            Some(Sleep::Perhaps) if activity == Some(Activity::Reading) => {}
            Some(Sleep::Perhaps) => activity = Some(Activity::Waiting),
            Some(Sleep::Reading) => activity = Some(Activity::Reading),
        }
    }
    // The group's last process has just ended: the shell is about to take the terminal back.
    Some(activity.unwrap_or(Activity::Working))
}

enum Sleep {
    Running,
    Reading,
    Perhaps,
    Elsewhere,
}

/// `None` for processes that are stopped or dead.
fn process_activity(proc: &OwnedFd, pid: i32, state: u8) -> Option<Sleep> {
    match state {
        b'R' | b'D' => return Some(Sleep::Running),
        b'S' => {}
        _ => return None,
    }
    let Some(call) = read_file(proc, &format!("{pid}/syscall")) else { return Some(Sleep::Perhaps) };
    let mut words = call.split(' ');
    let number = match words.next()?.trim() {
        "running" => return Some(Sleep::Running),
        number => number.parse::<i64>().ok()?,
    };
    if READS.contains(&number) {
        let descriptor = words.next().and_then(|word| i64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let target = readlinkat(proc, format!("{pid}/fd/{}", descriptor.unwrap_or(-1)), Vec::new());
        return Some(match target {
            Ok(path) if is_terminal(path.to_bytes()) => Sleep::Reading,
            Ok(_) => Sleep::Elsewhere,
            Err(_) => Sleep::Perhaps,
        });
    }
    Some(if POLLS.contains(&number) { Sleep::Perhaps } else { Sleep::Elsewhere })
}

fn is_terminal(path: &[u8]) -> bool {
    path.starts_with(b"/dev/pts/") || path == b"/dev/tty" || path == b"/dev/console"
}

const READS: &[i64] = &[libc::SYS_read, libc::SYS_readv, libc::SYS_pread64];

/// Calls that wait for one of several descriptors; which ones, only the process's memory shows.
const POLLS: &[i64] = &[
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

struct Stat {
    state: u8,
    group: i32,
    terminal: i32,
    foreground: i32,
}

/// Fields 3, 5, 7 and 8 of proc_pid_stat(5). The name before them may contain anything.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').take(6).collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        group: fields.get(2)?.parse().ok()?,
        terminal: fields.get(4)?.parse().ok()?,
        foreground: fields.get(5)?.parse().ok()?,
    })
}

fn open_proc(base: Option<&OwnedFd>, path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let folder = match base {
        Some(base) => openat(base, path, flags, Mode::empty()),
        None => rustix::fs::open(path, flags, Mode::empty()),
    }
    .ok()?;
    (fstatfs(&folder).ok()?.f_type as u64 == PROC_MAGIC).then_some(folder)
}

/// The first kilobyte of a file, enough for all files read here.
fn read_file(folder: &OwnedFd, path: &str) -> Option<String> {
    let file = openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut buffer = [0; 1024];
    let count = rustix::io::read(&file, &mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..count]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_anything() {
        let stat = parse_stat("12 (a) b) S 1 7 3 34816 9 4194304 0").unwrap();
        assert_eq!((stat.state, stat.group, stat.terminal, stat.foreground), (b'S', 7, 34816, 9));
        assert!(parse_stat("12 (a").is_none());
    }
}
