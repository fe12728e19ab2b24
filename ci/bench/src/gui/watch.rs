//! What the machine carries while something goes on: read from the kernel, never from the harness.

use std::collections::BTreeSet;
use std::fs;
use std::pin::pin;
use std::time::Duration;

use crate::census::memory_available_kib;

/// Between two looks: short beside an attempt, and long beside a look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The extremes of all looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) least_available_kib: u64,
    /// Sandboxes with a browser.
    pub(super) browsers: usize,
}

/// Looks again and again until the work is done. `owner` is in the label of every sandbox that counts.
pub(super) async fn watched<T>(owner: Option<&str>, work: impl Future<Output = T>) -> (T, Most) {
    let mut most = Most { least_available_kib: u64::MAX, browsers: 0 };
    let mut work = pin!(work);
    // timer: the machine tells nobody how much memory it has.
    let mut looks = tokio::time::interval(BETWEEN_LOOKS);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return (done, most),
            _ = looks.tick() => {}
        }
        let available = memory_available_kib().unwrap_or(u64::MAX);
        most.least_available_kib = most.least_available_kib.min(available);
        most.browsers = most.browsers.max(owner.map_or(0, browsers));
    }
}

/// Sandboxes of this owner: several processes carry the label of each.
fn browsers(owner: &str) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let labels: BTreeSet<String> = lines.filter_map(|line| label(&line, owner)).collect();
    labels.len()
}

/// The first word of a command line, if it has the owner in it.
fn label(line: &[u8], owner: &str) -> Option<String> {
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.contains(owner).then(|| first.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_are_known_by_their_label() {
        let check = |line: &str, expected: Option<&str>| {
            let found = label(line.as_bytes(), "clawrl-bench-gui-7-");
            assert_eq!(found.as_deref(), expected, "{line:?}");
        };
        check(
            "clawrl-box clawrl-bench-gui-7-99 browser-3\0--args\0",
            Some("clawrl-box clawrl-bench-gui-7-99 browser-3"),
        );
        check("clawrl-box clawrl-bench-gui-71-99 browser-3\0", None);
        check("cat\0clawrl-bench-gui-7-99\0", None);
        check("", None);
    }
}
