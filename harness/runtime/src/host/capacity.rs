//! Free resources of the host, from which the plan chooses and checks the concurrency.
//!
//! I1. The tightest of all limits counts: machine, user, container.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_config::{BrowserPlace, HostCapacity};
use rustix::process::{Resource, getrlimit};

use super::proc_text::{keyed, line, number};
use super::{browser, facts, open_files};

/// Measures the capacity. Takes well under a millisecond.
pub fn probe() -> HostCapacity {
    HostCapacity {
        cpus: facts::cpus(),
        memory_available_mib: memory_available_mib(),
        ptys_free: ptys_free(),
        pids_free: pids_free(),
        open_files: open_files::limit(),
        browsers: if browser::are_here() { BrowserPlace::Here } else { BrowserPlace::Elsewhere },
    }
}

/// Available memory: that of the machine, or less if a control group limits it.
pub fn memory_available_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = keyed(&text, "MemAvailable:").map_or(u64::MAX, |kib| kib / 1024);
    let groups = own_groups("memory").into_iter().filter_map(|group| {
        let (limit, used) = match number(group.join("memory.max")) {
            Some(limit) => (limit, number(group.join("memory.current"))?),
            None => {
                let limit = number(group.join("memory.limit_in_bytes"))?;
                (limit, number(group.join("memory.usage_in_bytes"))?.saturating_sub(reclaimable(&group)))
            }
        };
        Some(limit.saturating_sub(used) >> 20)
    });
    groups.fold(machine, u64::min)
}

/// Page cache that counts as used but is reclaimed under pressure.
fn reclaimable(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    keyed(&text, "total_inactive_file ").unwrap_or(0)
}

/// Number of pseudo-terminals that can still be opened.
pub fn ptys_free() -> u64 {
    let most = number("/proc/sys/kernel/pty/max").unwrap_or(4096);
    most.saturating_sub(number("/proc/sys/kernel/pty/nr").unwrap_or(0))
}

/// Number of processes and threads that can still be started.
pub fn pids_free() -> u64 {
    let threads = line("/proc/loadavg")
        .and_then(|text| text.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok())
        .unwrap_or(0);
    let most = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    let machine = most.iter().filter_map(number).min().unwrap_or(u64::MAX).saturating_sub(threads);
    // The per-user limit does not bind root.
    let user = match getrlimit(Resource::Nproc).current {
        Some(limit) if !rustix::process::geteuid().is_root() => limit.saturating_sub(threads),
        _ => u64::MAX,
    };
    let groups = own_groups("pids").into_iter().filter_map(|group| {
        Some(number(group.join("pids.max"))?.saturating_sub(number(group.join("pids.current"))?))
    });
    groups.fold(machine.min(user), u64::min)
}

/// The folders of this process's control group and its ancestors, for one controller, at the usual mount points.
fn own_groups(controller: &str) -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for row in own.lines() {
        let mut parts = row.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mount = match names {
            "" => PathBuf::from("/sys/fs/cgroup"),
            names if names.split(',').any(|name| name == controller) => {
                Path::new("/sys/fs/cgroup").join(controller)
            }
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        folders.extend(below.ancestors().map(|part| mount.join(part)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real values of the machine that runs the test.
    #[test]
    fn every_machine_has_something() {
        let host = probe();
        assert!(host.cpus >= 1 && host.memory_available_mib > 1 && host.open_files >= 64, "{host:?}");
        assert!(host.pids_free > 1 && host.ptys_free > 0, "{host:?}");
        assert!(host.memory_available_mib < 1 << 40, "{host:?}");
    }
}
