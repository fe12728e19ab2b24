//! The containers that must end with the harness.
//!
//! I1. A container stays registered until its first process has ended, whatever happened to the programs started in it:
//! between a halt and its verifier no program runs.
//! I2. Registering costs each start the same, however many containers there were.

use std::os::fd::AsFd;

use rustix::process::{Signal, pidfd_send_signal};

use super::protocol::JoinTarget;
use crate::freezer::Freezer;
use crate::procs::{self, ProcessStat};

/// Number of entries above which ended containers are removed.
const CLEANUP_THRESHOLD: usize = 64;

/// The containers in which a main program was started.
#[derive(Debug, Default)]
pub(super) struct ContainerRegistry {
    containers: Vec<Container>,
    /// Number of entries at which the next cleanup runs: twice what the last one left.
    crowded: usize,
}

#[derive(Debug)]
struct Container {
    /// Process id and start time of the first process.
    pid: u32,
    start_ticks: u64,
    freezer: Option<Freezer>,
}

impl ContainerRegistry {
    pub(super) fn add(&mut self, target: &JoinTarget) {
        if self.containers.len() >= self.crowded.max(CLEANUP_THRESHOLD) {
            self.containers.retain(Container::is_there);
            self.crowded = self.containers.len() * 2;
        }
        let entrances = target.container.as_ref().map(|container| container.entrances.as_slice());
        self.containers.push(Container {
            pid: target.pid,
            start_ticks: target.start_ticks,
            freezer: Freezer::among(entrances.unwrap_or_default()),
        });
    }

    /// Kills the first processes, and with each all others in its container.
    pub(super) fn end(&mut self) {
        self.containers.drain(..).for_each(|container| container.end());
    }
}

impl Container {
    fn is_there(&self) -> bool {
        ProcessStat::read(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.zombie)
    }

    fn end(&self) {
        // Opened before the check: the handle stays with the checked process.
        let Some(handle) = procs::open(self.pid).filter(|_| self.is_there()) else { return };
        // ESRCH: it has already ended.
        let _ = pidfd_send_signal(handle.as_fd(), Signal::KILL);
        // The harness may have died while the container was frozen, and in version 1 a frozen process does not die.
        if let Some(freezer) = &self.freezer {
            freezer.thaw();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn target(child: &Child) -> JoinTarget {
        let start_ticks = ProcessStat::read(child.id()).unwrap().start_ticks;
        JoinTarget { pid: child.id(), start_ticks, inside_identity: (0, 0), container: None }
    }

    #[test]
    fn i2_ended_are_forgotten_live_are_killed() {
        let waiting = || Command::new("sleep").arg("1000").spawn().unwrap();
        let mut remembered = ContainerRegistry::default();
        let mut living = waiting();
        remembered.add(&target(&living));
        for _ in 0..3 * CLEANUP_THRESHOLD {
            let mut ended = waiting();
            remembered.add(&target(&ended));
            ended.kill().unwrap();
            ended.wait().unwrap();
        }
        assert!(remembered.containers.len() <= CLEANUP_THRESHOLD + 1, "{}", remembered.containers.len());
        // A reused process id must not be touched.
        let mut another = waiting();
        remembered.add(&JoinTarget { start_ticks: 1, ..target(&another) });
        remembered.end();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&living.wait().unwrap()), Some(9));
        assert_eq!(another.try_wait().unwrap(), None);
        another.kill().unwrap();
        another.wait().unwrap();
    }
}
