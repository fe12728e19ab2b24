//! What /proc tells about a container's first process: control groups, security label, user ids, its mark.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::cgroup::joined;

/// The files, on this side, by which a process enters each control group of this process.
pub(super) fn entrances(pid: u32) -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(entrances_of(&mounts, &fs::read_to_string(format!("/proc/{pid}/cgroup"))?))
}

fn entrances_of(mountinfo: &str, own: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mount = mountinfo.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let options = || right.get(2).copied().unwrap_or_default().split(',');
            let fits = match *right.first()? {
                "cgroup2" => names.is_empty(),
                "cgroup" => !names.is_empty() && names.split(',').all(|name| options().any(|o| o == name)),
                _ => false,
            };
            fits.then(|| joined(left[4], left[3], path))
        });
        // A hierarchy that is not mounted limits nothing that we could bypass.
        found
            .extend(mount.map(|folder| folder.join(if names.is_empty() { "cgroup.procs" } else { "tasks" })));
    }
    found
}

/// The label of the security module, if one confines the process.
pub(super) fn label(pid: u32) -> Option<String> {
    let label = fs::read_to_string(format!("/proc/{pid}/attr/current")).ok()?;
    let label = label.trim_end_matches(['\0', '\n']);
    (!label.is_empty() && label != "unconfined").then(|| label.to_owned())
}

/// Whether the process was started with a variable of this name and value.
pub(super) fn carries(pid: u32, name: &str, value: &str) -> bool {
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("{name}={value}");
    variables.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Whether the process ignores SIGCHLD, so that the kernel reaps its children.
pub(super) fn reaps(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (libc::SIGCHLD - 1)) != 0
}

/// The id on the host of a user (`uid_map`) or group (`gid_map`) of the process's user namespace.
pub(super) fn outside(pid: u32, map: &str, inside: u32) -> Option<u32> {
    outside_of(&fs::read_to_string(format!("/proc/{pid}/{map}")).ok()?, inside)
}

fn outside_of(map: &str, inside: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
        let (first, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let above = inside.checked_sub(first).filter(|above| *above < count)?;
        outside.checked_add(above)
    })
}

/// Whether the process is exiting: the rest of its namespace has then been killed, or is about to be.
pub(super) fn is_ending(pid: u32) -> bool {
    /// `PF_EXITING` of the kernel.
    const EXITING: u64 = 0x4;
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let Some((_, fields)) = stat.rsplit_once(") ") else { return true };
    // Field 9 of the file; the first one here is field 3.
    let flags = fields.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok());
    fields.starts_with(['Z', 'X']) || flags.is_none_or(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hierarchy_has_its_entrance() {
        let mounts = "\
30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
        let own = "9:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n3:rdma:/\n1:name=systemd:/docker/x\n0::/system.slice/x\n";
        let found: Vec<String> =
            entrances_of(mounts, own).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            found,
            [
                "/sys/fs/cgroup/memory/docker/x/tasks",
                "/sys/fs/cgroup/cpu,cpuacct/docker/x/tasks",
                "/sys/fs/cgroup/systemd/docker/x/tasks",
                "/sys/fs/cgroup/unified/system.slice/x/cgroup.procs"
            ]
        );
    }

    #[test]
    fn users_are_counted_from_outside() {
        let check = |map, inside, expected| assert_eq!(outside_of(map, inside), expected, "{inside}");
        check("         0          0 4294967295\n", 1000, Some(1000));
        check("0 100000 65536\n", 1000, Some(101_000));
        check("0 100000 65536\n", 65_536, None);
        check("", 0, None);
    }

    #[test]
    fn we_are_not_ending() {
        assert!(!reaps(std::process::id()));
        assert!(!is_ending(std::process::id()));
        assert!(is_ending(u32::MAX));
    }
}
