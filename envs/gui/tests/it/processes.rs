//! Processes of this test's browsers, as the machine sees them.

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::PATIENCE;

/// A live process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    parent: i32,
    name: String,
    command: String,
    /// Pages of memory.
    resident: u64,
}

impl Process {
    fn read(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (start, end) = stat.rsplit_once(')')?;
        let mut fields = end.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let memory = fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let is_dead = state == "Z" || state == "X";
        (!is_dead).then(|| Self {
            id,
            parent,
            name: start.split_once('(').unwrap_or_default().1.to_owned(),
            command: String::from_utf8_lossy(&command).replace('\0', " "),
            resident: memory
                .split_whitespace()
                .nth(1)
                .and_then(|pages| pages.parse().ok())
                .unwrap_or_default(),
        })
    }

    fn is_browser(&self) -> bool {
        matches!(
            self.name.as_str(),
            "chromium" | "chrome" | "chromium-browse" | "chromium-headle" | "chrome-headless"
        )
    }

    /// Ends it as nothing else could, and waits until it is gone.
    pub(crate) fn kill(&self) {
        let Some(id) = Pid::from_raw(self.id) else { return };
        let _ = kill_process(id, Signal::KILL);
        until("it is gone", || Self::read(self.id).is_none());
    }
}

/// Those that this test's process started, or that were started by one of them.
fn own() -> Vec<Process> {
    let ids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = ids.filter_map(Process::read).collect();
    let test = std::process::id() as i32;
    let is_own = |process: &&Process| {
        let mut at = process.parent;
        while at != test {
            match all.iter().find(|other| other.id == at) {
                Some(parent) if parent.parent != at => at = parent.parent,
                _ => return false,
            }
        }
        true
    };
    all.iter().filter(is_own).cloned().collect()
}

/// Drivers, in the order of their ids.
pub(crate) fn drivers() -> Vec<Process> {
    let mut all: Vec<Process> = own().into_iter().filter(|process| process.name == "chromedriver").collect();
    all.sort_by_key(|process| process.id);
    all
}

/// The first processes of browsers, in the order of their ids.
pub(crate) fn browsers() -> Vec<Process> {
    let is_first = |process: &Process| process.is_browser() && !process.command.contains("--type=");
    let mut all: Vec<Process> = own().into_iter().filter(is_first).collect();
    all.sort_by_key(|process| process.id);
    all
}

/// The only browser, once others have ended.
pub(crate) fn browser() -> Process {
    until("there is one browser", || browsers().len() == 1);
    browsers().remove(0)
}

/// Waits until a condition on processes holds.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let late = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < late, "{what}: {:?}", own());
        std::thread::yield_now();
    }
}

/// The process of pages that holds the most memory.
pub(crate) fn largest_page() -> Process {
    let is_page = |process: &Process| process.is_browser() && process.command.contains("--type=renderer");
    own().into_iter().filter(is_page).max_by_key(|process| process.resident).unwrap()
}

/// Listening ports in the network of a process, on the IPv4 loopback.
pub(crate) fn listening(process: &Process) -> Vec<u16> {
    const LISTENS: &str = "0A";
    let table = fs::read_to_string(format!("/proc/{}/net/tcp", process.id)).unwrap();
    let port = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        (state == LISTENS).then(|| u16::from_str_radix(local.split_once(':')?.1, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(port).collect()
}
