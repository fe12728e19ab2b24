//! Number of attempts that a host can run concurrently.
//!
//! Every resource has two numbers. Both follow from the host's free resources and the measured use of a sandboxed shell,
//! not from the limits of a task:
//!
//! - the *comfortable* number, which determines the default;
//! - the *possible* number: a larger explicit setting is refused, because leases would fail.
//!
//! | resource | comfortable | possible |
//! |---|---|---|
//! | cpus | 32 attempts a core | no bound |
//! | memory | half of what is available, 8 MiB an attempt, and room for one task's cap | all but 64 MiB, 2 MiB an attempt |
//! | pseudo-terminals | all but 16, one an attempt | all, one an attempt |
//! | processes | half of what is free, 8 an attempt | all, 4 an attempt |
//! | open files | half, 4 an attempt | all but 64, 3 an attempt |
//!
//! An attempt with a browser needs more. Comfortable: 4 attempts per core, and 256 MiB, 256 processes and threads and 16 open
//! files each. Possible: 128 MiB, 128 and 8. Chromium with one page uses about 160 MiB and 100 threads.
//!
//! A remote browser needs local connections and buffers of its pages: 16 open files (possible: 8), and the memory of a shell. The
//! comfortable number is also 4 per core: the number of remote browsers is unknown here, and attempts beyond it would wait
//! without end.
//!
//! Pure: the caller probes the host.

use serde::{Deserialize, Serialize};

/// Free resources of a host, as probed by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCapacity {
    /// Cores that this process may use.
    pub cpus: u32,
    /// Memory that can be had without swapping.
    pub memory_available_mib: u64,
    /// Pseudo-terminals that can still be opened.
    pub ptys_free: u64,
    /// Processes and threads that can still be started, by the tightest of the limits.
    pub pids_free: u64,
    /// Descriptors that this process may have open.
    pub open_files: u64,
    /// Where browsers are started.
    pub browsers: BrowserPlace,
}

/// Where browsers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrowserPlace {
    /// On this host, each in a sandbox.
    Here,
    /// By WebDriver endpoints, which do not use this host's resources.
    Elsewhere,
}

/// A resource that bounds concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Cores.
    Cpus,
    /// Memory.
    Memory,
    /// Pseudo-terminals.
    PseudoTerminals,
    /// Processes.
    Processes,
    /// Open files.
    OpenFiles,
}

/// A resource and the number of attempts that it suffices for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ResourceBound {
    /// The resource.
    pub resource: Resource,
    /// Attempts at once.
    pub attempts: u64,
}

/// Concurrent attempts per core; most of them wait for a shell or a policy.
const ATTEMPTS_PER_CPU: u64 = 32;

/// Concurrent attempts with browsers per core.
const BROWSERS_PER_CPU: u64 = 4;

/// Resource use of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The highest cap of memory of the plan's tasks.
    pub largest_memory_mib: u32,
    /// Place of the browsers; `None` if no attempt has a browser.
    pub browsers: Option<BrowserPlace>,
}

/// Resource use of one attempt; `per_cpu` counts attempts per core.
struct Needs {
    per_cpu: u64,
    memory_mib: u64,
    pids: u64,
    open_files: u64,
}

impl HostCapacity {
    /// The comfortable number of every resource.
    #[must_use]
    pub fn comfortable(&self, load: Load) -> [ResourceBound; 5] {
        let memory = (self.memory_available_mib / 2).saturating_sub(u64::from(load.largest_memory_mib) / 2);
        let each = match load.browsers {
            Some(BrowserPlace::Here) => {
                Needs { per_cpu: BROWSERS_PER_CPU, memory_mib: 256, pids: 256, open_files: 16 }
            }
            Some(BrowserPlace::Elsewhere) => {
                Needs { per_cpu: BROWSERS_PER_CPU, memory_mib: 8, pids: 8, open_files: 16 }
            }
            None => Needs { per_cpu: ATTEMPTS_PER_CPU, memory_mib: 8, pids: 8, open_files: 4 },
        };
        bounds([
            u64::from(self.cpus).saturating_mul(each.per_cpu),
            memory / each.memory_mib,
            self.ptys_free.saturating_sub(16),
            self.pids_free / 2 / each.pids,
            self.open_files / 2 / each.open_files,
        ])
    }

    /// The possible number of every resource.
    #[must_use]
    pub fn possible(&self, load: Load) -> [ResourceBound; 5] {
        let each = match load.browsers {
            Some(BrowserPlace::Here) => {
                Needs { per_cpu: u64::MAX, memory_mib: 128, pids: 128, open_files: 8 }
            }
            Some(BrowserPlace::Elsewhere) => {
                Needs { per_cpu: u64::MAX, memory_mib: 2, pids: 4, open_files: 8 }
            }
            None => Needs { per_cpu: u64::MAX, memory_mib: 2, pids: 4, open_files: 3 },
        };
        bounds([
            each.per_cpu,
            self.memory_available_mib.saturating_sub(64) / each.memory_mib,
            self.ptys_free,
            self.pids_free / each.pids,
            self.open_files.saturating_sub(64) / each.open_files,
        ])
    }
}

fn bounds(attempts: [u64; 5]) -> [ResourceBound; 5] {
    use Resource::{Cpus, Memory, OpenFiles, Processes, PseudoTerminals};
    let resources = [Cpus, Memory, PseudoTerminals, Processes, OpenFiles];
    std::array::from_fn(|at| ResourceBound { resource: resources[at], attempts: attempts[at] })
}

/// The tightest of several bounds; the first of equals.
pub(crate) fn tightest(bounds: [ResourceBound; 5]) -> ResourceBound {
    bounds
        .into_iter()
        .fold(bounds[0], |least, bound| if bound.attempts < least.attempts { bound } else { least })
}

impl Resource {
    /// In words, for a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Cpus => "CPU cores",
            Self::Memory => "available memory",
            Self::PseudoTerminals => "free pseudo-terminals",
            Self::Processes => "free processes",
            Self::OpenFiles => "open files",
        }
    }

    /// Advice on how to raise this limit.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Cpus => "use a machine with more cores",
            Self::Memory => "free some memory or use a larger machine",
            Self::PseudoTerminals => "raise `sysctl kernel.pty.max`",
            Self::Processes => {
                "raise `ulimit -u`, `sysctl kernel.pid_max` or the pids limit of the container"
            }
            Self::OpenFiles => "raise `ulimit -n`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostCapacity {
        HostCapacity {
            cpus: 2,
            memory_available_mib: 12_000,
            ptys_free: 4_000,
            pids_free: 30_000,
            open_files: 65_536,
            browsers: BrowserPlace::Here,
        }
    }

    fn check(host: HostCapacity, comfortable: (Resource, u64), possible: (Resource, u64)) {
        let pair = |bound: ResourceBound| (bound.resource, bound.attempts);
        let load = Load { largest_memory_mib: 256, browsers: None };
        assert_eq!(pair(tightest(host.comfortable(load))), comfortable, "comfortable for {host:?}");
        assert_eq!(pair(tightest(host.possible(load))), possible, "possible for {host:?}");
    }

    #[test]
    fn browsers_take_more() {
        let check = |browsers, comfortable, possible| {
            let load = Load { largest_memory_mib: 0, browsers: Some(browsers) };
            let pair = |bound: ResourceBound| (bound.resource, bound.attempts);
            assert_eq!(pair(tightest(host().comfortable(load))), comfortable, "{browsers:?}");
            assert_eq!(pair(tightest(host().possible(load))), possible, "{browsers:?}");
        };
        check(BrowserPlace::Here, (Resource::Cpus, 8), (Resource::Memory, 93));
        check(BrowserPlace::Elsewhere, (Resource::Cpus, 8), (Resource::PseudoTerminals, 4_000));
    }

    #[test]
    fn the_scarcest_resource_is_named() {
        check(host(), (Resource::Cpus, 64), (Resource::PseudoTerminals, 4_000));
        check(
            HostCapacity { open_files: 256, ..host() },
            (Resource::OpenFiles, 32),
            (Resource::OpenFiles, 64),
        );
        check(
            HostCapacity { memory_available_mib: 512, ..host() },
            (Resource::Memory, 16),
            (Resource::Memory, 224),
        );
        check(HostCapacity { pids_free: 100, ..host() }, (Resource::Processes, 6), (Resource::Processes, 25));
        check(
            HostCapacity { ptys_free: 10, ..host() },
            (Resource::PseudoTerminals, 0),
            (Resource::PseudoTerminals, 10),
        );
    }
}
