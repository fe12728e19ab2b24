//! Ctrl-C once, Ctrl-C twice, SIGTERM; and resuming afterwards.

use std::collections::BTreeMap;

use clawrl_record::{Ending, RunEnd};
use rustix::process::Signal;

use crate::place::Place;

/// Four tasks that take no time, then four that take seconds.
pub(crate) const SLOW: &str = r#"
format: 1
suite: slow
defaults:
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32 } }
tasks:
  - id: quick
    template: { n: { range: [1, 4] } }
    instruction: Write {{ n }} into out.txt.
    checks: [ { file_equals: { path: out.txt, expected: "{{ n }}\n" } } ]
    oracle: { commands: ["echo {{ n }} > out.txt"] }
  - id: slow
    template: { n: { range: [1, 4] } }
    instruction: Write {{ n }} into out.txt, later.
    checks: [ { file_equals: { path: out.txt, expected: "{{ n }}\n" } } ]
    oracle: { commands: ["sleep 4; echo {{ n }} > out.txt"] }
"#;

fn endings(place: &Place, run: &str) -> BTreeMap<&'static str, usize> {
    let mut endings = BTreeMap::new();
    for attempt in place.run(run).attempts() {
        let word = match attempt.ending {
            Ending::Finished { passed: true, .. } => "passed",
            Ending::Finished { .. } => "failed",
            Ending::Faulted { .. } => "faulted",
            Ending::Cancelled(_) => "cancelled",
        };
        *endings.entry(word).or_default() += 1;
    }
    endings
}

fn place() -> Place {
    let place = Place::new();
    place.suite("slow", SLOW);
    place
}

#[test]
fn once_finishes_what_runs_and_a_resume_does_the_rest() {
    let place = place();
    let mut live = place.start(&["run", "slow", "--name", "once", "--concurrency", "2"]);
    live.hears("4/8 closed");
    live.signal(Signal::INT);
    live.hears("finishing what runs and starting nothing more; Ctrl-C again cancels it");
    let said = live.ended().ends(5);
    assert!(said.out.contains("go on with  clawrl run --resume once\n"), "{}", said.out);
    assert!(said.out.contains("open        s6, s7\n"), "{}", said.out);
    assert_eq!(endings(&place, "once"), BTreeMap::from([("passed", 6)]));
    assert_eq!(place.run("once").summary().end, Some(RunEnd::Interrupted));

    let said = place.clawrl(&["run", "--resume", "once"]).ends(0);
    assert!(said.err.contains("run once: 6 slots are closed, 2 to go"), "{}", said.err);
    assert_eq!(endings(&place, "once"), BTreeMap::from([("passed", 8)]));
    assert_eq!(place.run("once").summary().end, Some(RunEnd::Completed));
}

#[test]
fn twice_cancels_what_runs_and_a_resume_runs_it_again() {
    let place = place();
    let mut live = place.start(&["run", "slow", "--name", "twice", "--concurrency", "4"]);
    live.hears("4/8 closed");
    live.signal(Signal::INT);
    live.hears("finishing what runs");
    live.signal(Signal::INT);
    live.hears("cancelling: what runs is closed and recorded as cancelled");
    let said = live.ended().ends(5);
    assert!(said.out.contains("0 left behind"), "{}", said.out);
    assert_eq!(endings(&place, "twice"), BTreeMap::from([("cancelled", 4), ("passed", 4)]));

    place.clawrl(&["run", "--resume", "twice", "--quiet"]).ends(0);
    assert_eq!(endings(&place, "twice"), BTreeMap::from([("cancelled", 4), ("passed", 8)]));
}

#[test]
fn a_request_to_terminate_cancels_at_once() {
    let place = place();
    let mut live = place.start(&["run", "slow", "--name", "term", "--concurrency", "4"]);
    live.hears("4/8 closed");
    live.signal(Signal::TERM);
    live.ended().ends(5);
    assert_eq!(endings(&place, "term"), BTreeMap::from([("cancelled", 4), ("passed", 4)]));
}

#[test]
fn a_run_under_way_is_nobody_elses() {
    let place = place();
    let mut live = place.start(&["run", "slow", "--name", "busy", "--concurrency", "4"]);
    live.hears("4/8 closed");
    let said = place.clawrl(&["run", "--resume", "busy"]).ends(8);
    let expected = format!("run busy is still running in process {}\n", live.id());
    assert!(said.err.contains(&expected), "{}", said.err);
    place.clawrl(&["clean", "busy", "--yes"]).ends(8);
    assert!(place.clawrl(&["ls"]).ends(0).out.contains("running"));
    assert!(place.clawrl(&["clean", "--all", "--yes"]).ends(0).out.contains("0 runs deleted"));
    live.signal(Signal::TERM);
    live.ended().ends(5);
}
