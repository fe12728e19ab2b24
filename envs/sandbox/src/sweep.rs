//! The orphan sweep: at the start of a run, ends what dead harness processes left behind.
//!
//! A killed harness takes its sandboxes with it (the spawner notices its closed socket, and the kernel follows the
//! spawner's death). This is the second line of defence, for a machine on which both were killed at once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::CgroupHost;
use crate::cgroup;
use crate::procs;

/// Result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Processes of dead harnesses that were killed.
    pub processes: u32,
    /// Control groups of dead harnesses that were removed.
    pub cgroups: u32,
    /// What could not be removed.
    pub leftovers: Vec<PathBuf>,
}

/// Kills sandboxes whose harness is dead and removes their control groups. Blocks.
///
/// Only objects with our label whose maker has provably ended are touched; sandboxes of a live harness, also of another
/// user, are not.
#[must_use]
pub fn sweep_orphans(host: &CgroupHost) -> SweepReport {
    let mut report = SweepReport::default();
    // Killing an outer process ends its sandbox through the death signal; processes in a cgroup are killed, too.
    for pid in procs::all() {
        if is_orphaned_box(&procs::command_line(pid)) && kill(pid) {
            report.processes += 1;
        }
    }
    for owner in cgroup::orphaned_folders(host) {
        remove_tree(owner, &mut report);
    }
    remove_files(&std::env::temp_dir(), &mut report);
    report
}

/// Removes folders with files of sandboxes that dead harness processes of this user left in `folder`.
fn remove_files(folder: &Path, report: &mut SweepReport) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_orphan = entry.file_name().to_str().and_then(cgroup::owner_is_alive) == Some(false);
        // Not through a link: any user may create one in a temporary folder.
        let is_ours = || entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        if is_orphan && is_ours() && std::fs::remove_dir_all(entry.path()).is_err() {
            report.leftovers.push(entry.path());
        }
    }
}

/// The name that every sandbox's outer process carries: `clawrl-box <owner> <label> ...`.
fn is_orphaned_box(command_line: &str) -> bool {
    let mut words = command_line.split(' ');
    words.next() == Some("clawrl-box") && words.next().and_then(cgroup::owner_is_alive) == Some(false)
}

fn remove_tree(owner: PathBuf, report: &mut SweepReport) {
    let boxes = std::fs::read_dir(&owner).into_iter().flatten().flatten();
    for folder in boxes.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        for pid in cgroup::members_of(&folder) {
            if kill(pid) {
                report.processes += 1;
            }
        }
        if !cgroup::remove_when_empty(&folder) {
            report.leftovers.push(folder);
        }
    }
    if cgroup::remove_when_empty(&owner) {
        report.cgroups += 1;
    } else {
        report.leftovers.push(owner);
    }
}

fn kill(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_boxes_of_dead_harnesses_are_orphans() {
        let run = clawrl_core::RunId::new("r").unwrap();
        let alive = format!("clawrl-box {} s0.0 --args 5", cgroup::owner_name(&run));
        assert!(!is_orphaned_box(&alive));
        assert!(is_orphaned_box("clawrl-box clawrl-r-1-1 s0.0 --args 5"));
        assert!(!is_orphaned_box("bash clawrl-box clawrl-r-1-1"));
        assert!(!is_orphaned_box(""));
    }

    #[test]
    fn sweep_removes_only_files_of_dead_harness() {
        let folder = tempfile::tempdir().unwrap();
        let run = clawrl_core::RunId::new("r").unwrap();
        let alive = cgroup::owner_name(&run);
        for name in ["clawrl-r-1-1/b0-0", "clawrl-other/b0", &format!("{alive}/b0"), "elsewhere/b0"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("elsewhere", folder.path().join("clawrl-r-1-2")).unwrap();
        let mut report = SweepReport::default();
        remove_files(folder.path(), &mut report);
        assert_eq!(report, SweepReport::default());
        let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        let mut expected = [alive.as_str(), "clawrl-other", "clawrl-r-1-2", "elsewhere"].map(str::to_owned);
        expected.sort();
        assert_eq!(left, expected);
        assert!(folder.path().join("elsewhere/b0").exists());
    }

    #[test]
    fn sweep_removes_remains_of_dead_harness() {
        use std::os::unix::process::CommandExt;
        // Pid 1 has not started at tick 1: no process with this name can be alive.
        let owner = "clawrl-swept-1-1";
        let host = CgroupHost::detect();
        let folders = cgroup::make_for_tests(&host, owner, "b0");
        let mut orphan = std::process::Command::new("sleep")
            .arg0(format!("clawrl-box {owner} s0.0"))
            .arg("1000")
            .spawn()
            .unwrap();
        for folder in &folders {
            std::fs::write(folder.join("cgroup.procs"), orphan.id().to_string()).unwrap();
        }
        let reaper = std::thread::spawn(move || orphan.wait().unwrap());
        let report = sweep_orphans(&host);
        assert!(report.processes >= 1 && report.leftovers.is_empty(), "{report:?}");
        assert!(reaper.join().unwrap().code().is_none());
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
