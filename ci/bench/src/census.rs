//! What exists now: read from the kernel, never from the harness.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A machine that is quiet gives and takes less than this between two looks, so many times in a row.
const QUIET_KIB: u64 = 1024;
const QUIET_LOOKS: u32 = 15;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// Memory, and what this process holds.
#[derive(Debug, Clone)]
pub(crate) struct Census {
    pub(crate) memory_available_kib: u64,
    pub(crate) threads: usize,
    pub(crate) open_files: usize,
    mounts: BTreeSet<String>,
    temporary: BTreeSet<PathBuf>,
}

impl Census {
    pub(crate) fn take() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            memory_available_kib: memory_available_kib().unwrap_or(0),
            threads: entries("/proc/self/task").count(),
            // Without the descriptor that reads the folder.
            open_files: entries("/proc/self/fd").count().saturating_sub(1),
            mounts: mounts.lines().map(str::to_owned).collect(),
            temporary: entries(std::env::temp_dir()).collect(),
        }
    }

    /// What is there now and was not at this census, by a run whose things carry `owner` in their names.
    pub(crate) fn left_since(&self, owner: &str) -> Vec<String> {
        let now = Self::take();
        let mut left: Vec<String> = Vec::new();
        let own = std::process::id();
        for pid in entries("/proc").filter_map(|path| path.file_name()?.to_str()?.parse::<u32>().ok()) {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            if command.contains(owner) {
                left.push(format!("process {pid} of a sandbox"));
            } else if parent(pid) == Some(own) {
                left.push(format!("child process {pid} ({command})"));
            }
        }
        let mut groups = Vec::new();
        folders_named(Path::new("/sys/fs/cgroup"), owner, &mut groups);
        left.extend(groups.iter().map(|path| format!("control group {}", path.display())));
        left.extend(now.mounts.difference(&self.mounts).map(|mount| format!("mount {mount}")));
        let ours =
            now.temporary.difference(&self.temporary).filter(|path| path.to_string_lossy().contains(owner));
        left.extend(ours.map(|path| format!("temporary {}", path.display())));
        for (what, before, now) in
            [("threads", self.threads, now.threads), ("descriptors", self.open_files, now.open_files)]
        {
            if now > before {
                left.push(format!("{} {what} more than before", now - before));
            }
        }
        left
    }
}

/// Waits until the kernel has cleaned up after what ran before, as far as free memory shows it: thousands of ended
/// sandboxes are freed in bursts over seconds.
pub(crate) fn settle() {
    let until = Instant::now() + QUIET_LIMIT;
    let mut last = memory_available_kib().unwrap_or(0);
    let mut quiet = 0;
    while quiet < QUIET_LOOKS && Instant::now() < until {
        // timer: nobody tells when namespaces have been freed.
        std::thread::sleep(BETWEEN_LOOKS);
        let now = memory_available_kib().unwrap_or(0);
        quiet = if now.abs_diff(last) < QUIET_KIB { quiet + 1 } else { 0 };
        last = now;
    }
}

pub(crate) fn memory_available_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Processor time of the whole machine so far, waiting and stolen time left out.
pub(crate) fn machine_cpu() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().map_or(0, busy_ticks);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `cpu user nice system idle iowait irq softirq steal ...`; guests are already in `user`.
fn busy_ticks(line: &str) -> u64 {
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().filter_map(|&place| fields.get(place)).sum()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

fn folders_named(folder: &Path, owner: &str, found: &mut Vec<PathBuf>) {
    for path in entries(folder).filter(|path| path.is_dir() && !path.is_symlink()) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(owner)) {
            found.push(path.clone());
        }
        folders_named(&path, owner, found);
    }
}

fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_and_guests_are_not_work() {
        let check = |line: &str, expected: u64| assert_eq!(busy_ticks(line), expected, "{line}");
        check("cpu  1 20 300 4000 50000 600000 7000000 80000000 900000000 1000000000", 7_600_321);
        check("cpu  1 2 3", 6);
        check("", 0);
    }

    #[test]
    fn this_process_is_seen() {
        let census = Census::take();
        assert!(census.memory_available_kib > 0 && census.threads > 0 && census.open_files > 2);
        assert!(!census.mounts.is_empty());
        assert!(parent(std::process::id()).is_some());
        let file = tempfile::Builder::new()
            .prefix("clawrl-census-")
            .tempfile()
            .expect("a writable temporary folder");
        let left = census.left_since("clawrl-census-");
        assert!(left.iter().any(|what| what.contains("clawrl-census-")), "{left:?}");
        drop(file);
    }
}
