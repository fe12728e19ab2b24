//! What slots did, and what went wrong.

use std::collections::BTreeMap;

use clawrl_core::Fault;
use serde::Serialize;

/// What each slot does in a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) attempts: u32,
    /// Of each attempt.
    pub(super) steps: u32,
}

/// Faults of one code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FaultCount {
    pub(super) count: u32,
    /// What the first one said.
    pub(super) first: String,
}

/// Seconds of what was done, and what was not.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) steps: Vec<f64>,
    pub(super) resets: Vec<f64>,
    /// By boundary and code, and by the limit where one fired.
    pub(super) faults: BTreeMap<String, FaultCount>,
}

impl Tally {
    /// Counts a fault.
    pub(super) fn fault(&mut self, fault: Fault) {
        let limit = fault.limit.map_or_else(String::new, |limit| format!(" {}", limit.key()));
        let code = format!("{} {}{limit}", fault.boundary, fault.code);
        self.faults.entry(code).or_insert(FaultCount { count: 0, first: fault.message }).count += 1;
    }

    /// Adds what another slot did.
    pub(super) fn add(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.resets.extend(other.resets);
        for (code, FaultCount { count, first }) in other.faults {
            self.faults.entry(code).or_insert(FaultCount { count: 0, first }).count += count;
        }
    }
}

/// What was seen of all slots of a side in a round.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) tally: Tally,
    /// Until all browsers were there.
    pub(super) start_s: f64,
    /// From the first attempt that counts to the end of the last.
    pub(super) lasted_s: f64,
    /// What was there after the end, one sentence each.
    pub(super) left: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clawrl_core::{Boundary, Limit};

    use super::*;

    #[test]
    fn faults_are_counted_by_where_they_were_and_what_they_are() {
        let check = |faults: &[Fault], expected: &[(&str, u32, &str)]| {
            let mut all = Tally::default();
            for half in faults.chunks(2) {
                let mut slot = Tally::default();
                half.iter().cloned().for_each(|fault| slot.fault(fault));
                all.add(slot);
            }
            let counted: Vec<_> = all
                .faults
                .iter()
                .map(|(code, fault)| (code.as_str(), fault.count, fault.first.as_str()))
                .collect();
            assert_eq!(counted, expected, "{faults:?}");
        };
        let lost = |message: &str| Fault::transient(Boundary::Env, "browser-lost", message);
        check(&[], &[]);
        check(&[lost("a"), lost("b"), lost("c")], &[("env browser-lost", 3, "a")]);
        let late = Fault::limit(Boundary::Env, Limit::Step, Duration::from_secs(30));
        let message = late.message.clone();
        check(
            &[lost("a"), late],
            &[("env browser-lost", 1, "a"), ("env limit step_timeout_secs", 1, &message)],
        );
    }
}
