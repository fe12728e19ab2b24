//! Facts about this machine for a run's lock file and for `clawrl doctor`.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;

use super::proc_text::{keyed, line};

/// Name and version of this program.
pub const PROGRAM: &str = concat!("clawrl ", env!("CARGO_PKG_VERSION"));

/// Cores that this process may use.
pub fn cpus() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// Memory of the machine.
pub fn memory_mib() -> Option<u64> {
    keyed(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:").map(|kib| kib / 1024)
}

/// The kernel's name and release.
pub fn kernel() -> String {
    let uname = rustix::system::uname();
    format!("{} {} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy(), machine())
}

fn machine() -> String {
    rustix::system::uname().machine().to_string_lossy().into_owned()
}

/// The distribution's name for itself.
pub fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The facts that every lock file contains.
pub fn of_every_machine() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([
        ("cpus".to_owned(), cpus().to_string()),
        ("kernel".to_owned(), kernel()),
        ("user".to_owned(), if rustix::process::geteuid().is_root() { "root" } else { "normal" }.to_owned()),
    ]);
    facts.extend(memory_mib().map(|mib| ("memory_mib".to_owned(), mib.to_string())));
    facts.extend(system().map(|system| ("system".to_owned(), system)));
    facts.extend(line("/proc/sys/kernel/pty/max").map(|most| ("pty_max".to_owned(), most)));
    facts
}
