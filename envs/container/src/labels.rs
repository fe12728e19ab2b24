//! Labels of containers, and what they tell about their maker.

use std::collections::HashMap;
use std::fs;

use clawrl_core::RunId;
use clawrl_sandbox::{owner_is_alive, owner_name};

const RUN: &str = "clawrl.run";
/// The process that made it: [`owner_name`].
pub(crate) const OWNER: &str = "clawrl.owner";
/// The boot in which it was made.
const BOOT: &str = "clawrl.boot";
/// The machine from which it was made.
const MACHINE: &str = "clawrl.machine";
/// The process namespace of the owner's process id.
const NAMESPACE: &str = "clawrl.pidns";

/// Labels for everything that this process creates for a run.
pub(crate) fn of(run: &RunId) -> HashMap<String, String> {
    let labels = [
        (RUN, run.to_string()),
        (OWNER, owner_name(run)),
        (MACHINE, machine()),
        (BOOT, boot()),
        (NAMESPACE, namespace()),
    ];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whether the maker has provably ended.
pub(crate) fn is_orphaned(labels: &HashMap<String, String>) -> bool {
    let label = |name| labels.get(name).map_or("", String::as_str);
    // An engine may serve several machines, and another machine's processes are unknown here.
    if label(MACHINE) != machine() {
        return false;
    }
    if label(BOOT) != boot() {
        return !label(BOOT).is_empty();
    }
    // Process ids of another namespace mean nothing here.
    label(NAMESPACE) == namespace() && owner_is_alive(label(OWNER)) == Some(false)
}

pub(crate) fn is_own(labels: &HashMap<String, String>, run: &RunId) -> bool {
    of(run).iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// Identifies a machine across boots. Copies of a machine may have the same id, and seldom the same name.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!("{} {}", read("/etc/machine-id"), read("/proc/sys/kernel/hostname"))
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_of_dead_makers_are_orphaned() {
        let own = of(&RunId::new("r").unwrap());
        let check = |changes: &[(&str, &str)], expected: bool| {
            let mut labels = own.clone();
            labels.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            assert_eq!(is_orphaned(&labels), expected, "{changes:?}");
        };
        check(&[], false);
        check(&[(OWNER, "clawrl-r-1-1")], true);
        check(&[(OWNER, "somebody-else")], false);
        check(&[(OWNER, "clawrl-r-1-1"), (NAMESPACE, "pid:[1]")], false);
        check(&[(BOOT, "another")], true);
        check(&[(BOOT, "another"), (MACHINE, "another")], false);
        check(&[(BOOT, "")], false);
        assert!(!is_orphaned(&HashMap::new()));
        assert!(is_own(&own, &RunId::new("r").unwrap()) && !is_own(&own, &RunId::new("s").unwrap()));
    }
}
