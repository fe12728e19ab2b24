//! The orphan sweep: at the start of a run, ends what dead harness processes left behind.
//!
//! A harness that is killed takes its sandboxes with it (the spawner sees its socket close, and the kernel
//! follows the spawner's death). This is the second line: for a machine where both were killed at once.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::CgroupHost;
use crate::cgroup;
use crate::procs;

/// What a sweep found and did.
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
/// Only things with our label whose maker is provably gone are touched; sandboxes of a live harness, also
/// of another user, are not.
#[must_use]
pub fn sweep_orphans(host: &CgroupHost) -> SweepReport {
    let mut report = SweepReport::default();
    // Killing an outer process ends its sandbox through the death signal; what is in a cgroup is killed too.
    for pid in procs::all() {
        if is_orphaned_box(&procs::command_line(pid)) && kill(pid) {
            report.processes += 1;
        }
    }
    for owner in cgroup::orphaned_folders(host) {
        remove_tree(owner, &mut report);
    }
    report
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
    fn what_a_dead_harness_left_is_ended_and_removed() {
        use std::os::unix::process::CommandExt;
        // Pid 1 has not started at tick 1: nobody of this name can be alive.
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
