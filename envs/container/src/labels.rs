//! What containers are labelled with, and what a label says of its maker.

use std::collections::HashMap;
use std::fs;

use clawrl_core::RunId;
use clawrl_sandbox::{owner_is_alive, owner_name};

/// The run.
const RUN: &str = "clawrl.run";
/// The process that made it: [`owner_name`].
pub(crate) const OWNER: &str = "clawrl.owner";
/// The boot it was made in.
const BOOT: &str = "clawrl.boot";
/// The machine that it was made from.
const MACHINE: &str = "clawrl.machine";
/// The process namespace that the owner's number counts in.
const NAMESPACE: &str = "clawrl.pidns";

/// Labels of everything that this process makes for a run.
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

/// Whether whoever made it is provably gone.
pub(crate) fn is_orphaned(labels: &HashMap<String, String>) -> bool {
    let label = |name| labels.get(name).map_or("", String::as_str);
    // An engine may make containers for several machines, and of another one's processes nothing is known here.
    if label(MACHINE) != machine() {
        return false;
    }
    if label(BOOT) != boot() {
        return !label(BOOT).is_empty();
    }
    // Numbers of another namespace mean nothing here.
    label(NAMESPACE) == namespace() && owner_is_alive(label(OWNER)) == Some(false)
}

/// Whether this process made it.
pub(crate) fn is_own(labels: &HashMap<String, String>, run: &RunId) -> bool {
    of(run).iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// By which a machine is known from one boot to the next. Copies of a machine may have the same number, and seldom the
/// same name.
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
    fn only_what_dead_processes_made_is_orphaned() {
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
