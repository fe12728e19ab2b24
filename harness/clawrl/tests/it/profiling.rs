//! `--profile`: what it writes, and that nothing of it is there without.

use std::path::PathBuf;

use clawrl_record::Run;
use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Live, Place};
use crate::stopping::SLOW;

fn slow() -> Place {
    let place = Place::new();
    place.suite("slow", SLOW);
    place
}

fn folder(place: &Place, run: &str) -> PathBuf {
    place.results().join("runs").join(run).join("profile")
}

/// `phases.json` of a run.
pub(crate) fn phases(place: &Place, run: &str) -> Value {
    let text = std::fs::read_to_string(folder(place, run).join("phases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How often a phase was; `None` of one that is not listed.
pub(crate) fn count(phases: &Value, name: &str) -> Option<u64> {
    let rows = phases["phases"].as_array().unwrap();
    let row = rows.iter().find(|row| row["phase"] == name)?;
    let buckets = row["buckets"].as_array().unwrap();
    let in_buckets: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(Some(in_buckets), row["sampled"].as_u64(), "{row}");
    let of = |field: &str| row[field].as_u64().unwrap();
    let rising = ["p50_us", "p90_us", "p95_us", "p99_us", "max_us"].map(of);
    assert!(rising.is_sorted(), "{row}");
    Some(of("count"))
}

/// The frames of a run's flame graph: class and title.
pub(crate) fn frames(place: &Place, run: &str) -> Vec<(String, String)> {
    let svg = std::fs::read_to_string(folder(place, run).join("flame.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let groups = document.descendants().filter(|node| node.has_attribute("data-n"));
    let frame = |group: roxmltree::Node<'_, '_>| {
        let title = group.children().find(|child| child.has_tag_name("title")).unwrap();
        (group.attribute("class").unwrap().to_owned(), title.text().unwrap().to_owned())
    };
    groups.map(frame).collect()
}

/// Attempts, turns, and turns that reached an environment.
fn recorded(run: &Run) -> (u64, u64, u64) {
    let records: Vec<_> = run.trajectories().unwrap().map(Result::unwrap).collect();
    let turns = || records.iter().flat_map(|record| &record.trajectory.turns);
    let reached = turns().filter(|turn| !turn.calls.is_empty()).count();
    (records.len() as u64, turns().count() as u64, reached as u64)
}

/// Whether a process handles SIGPROF, as the kernel says.
fn handles_sigprof(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    caught & (1 << (Signal::PROF.as_raw() - 1)) != 0
}

/// The processes that a process started, by its first thread.
fn children(process: u32) -> Vec<u32> {
    let children = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(children).unwrap();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn a_profile_has_every_attempt_and_names_our_functions() {
    let place = Place::new();
    let said = place.clawrl(&["run", "small", "--name", "p", "--group-size", "2", "--profile"]).ends(0);
    let (attempts, turns, reached) = recorded(&place.run("p"));
    assert_eq!(attempts, 24);
    let phases = phases(&place, "p");
    assert_eq!((&phases["format"], &phases["run"]), (&1.into(), &"p".into()));
    for phase in ["queue", "lease", "setup", "grade", "close"] {
        assert_eq!(count(&phases, phase), Some(attempts), "{phase}");
    }
    assert_eq!((count(&phases, "policy"), count(&phases, "step")), (Some(turns), Some(reached)));
    for phase in ["prefill", "decode", "swap", "imitate", "learn", "judge"] {
        assert_eq!(count(&phases, phase), None, "{phase}");
    }
    assert!(phases["flame"]["samples"].as_u64() > Some(0), "{phases}");
    let frames = frames(&place, "p");
    assert!(frames.iter().any(|(class, title)| class == "o" && title.contains("clawrl")), "{frames:?}");
    // Threads are told apart, down to those of the runtime.
    assert!(
        frames.iter().any(|(class, title)| class == "n" && title.starts_with("clawrl-worker: ")),
        "{frames:?}"
    );
    let table: Vec<&str> = said.err.lines().skip_while(|line| !line.starts_with("phase ")).collect();
    let first: Vec<&str> = table.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        first,
        ["phase", "queue", "lease", "setup", "policy", "step", "grade", "close", "profile"],
        "{}",
        said.err
    );
    assert_eq!(place.clawrl(&["clean", "p", "--yes"]).ends(0).out, "1 run deleted\n");
    assert!(!place.results().join("runs/p").exists());
}

#[test]
fn without_being_asked_for_there_is_no_profile_and_no_handler() {
    let place = slow();
    let mut live = place.start(&["run", "slow", "--name", "plain", "--concurrency", "2"]);
    live.hears("4/8 closed");
    assert!(!handles_sigprof(live.id()));
    live.signal(Signal::INT);
    live.ended().ends(5);
    assert!(!folder(&place, "plain").exists());
}

/// A profiled run whose slow tasks have begun.
fn profiled(place: &Place, arguments: &[&str]) -> Live {
    place.start(&[&["run", "--profile"], arguments].concat())
}

#[test]
fn the_profile_of_a_resumed_run_is_of_what_it_resumed() {
    let place = slow();
    let mut live = profiled(&place, &["slow", "--name", "p", "--concurrency", "2"]);
    live.hears("4/8 closed");
    assert!(handles_sigprof(live.id()));
    // The spawner and its sandboxes have nothing of it.
    let spawned = children(live.id());
    assert!(!spawned.is_empty());
    assert!(spawned.iter().all(|&child| !handles_sigprof(child)));
    live.signal(Signal::INT);
    live.ended().ends(5);
    assert_eq!(count(&phases(&place, "p"), "grade"), Some(6));
    let said = profiled(&place, &["--resume", "p", "--quiet"]).ended().ends(0);
    assert_eq!(said.err, "", "a table is a note");
    assert_eq!(count(&phases(&place, "p"), "grade"), Some(2));
    let names: Vec<_> =
        std::fs::read_dir(folder(&place, "p")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_retry_waits_from_the_end_of_the_attempt_before() {
    let place = Place::new();
    // Faulted once, whatever was there before is gone: a retry is a new environment.
    let broken = crate::place::SMALL.replace("idle_millis: 300", "idle_millis: 300, setup: [\"false\"]");
    place.suite("small", &broken);
    let arguments =
        ["run", "small", "--name", "p", "--limit", "3", "--max-retries", "1", "--profile", "--quiet"];
    place.clawrl(&arguments).ends(4);
    let phases = phases(&place, "p");
    let (attempts, ..) = recorded(&place.run("p"));
    assert!(attempts >= 3);
    assert_eq!((count(&phases, "queue"), count(&phases, "lease")), (Some(attempts), Some(attempts)));
    // A phase that nothing was in is no row of zeros.
    assert_eq!((count(&phases, "setup"), count(&phases, "grade")), (None, None));
}

/// Runs something whose processes may not copy memory of others or their own.
fn forbidden(run: impl FnOnce() + Send) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let rules = [(libc::SYS_process_vm_readv, Vec::new())].into_iter().collect();
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    // A filter is a thread's, and of the processes that it starts.
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            seccompiler::apply_filter(&program).unwrap();
            run();
        });
        filtered.join().unwrap();
    });
}

#[test]
fn where_stacks_cannot_be_copied_phases_are_written_all_the_same() {
    let place = Place::new();
    forbidden(|| {
        let said =
            place.clawrl(&["run", "small", "--name", "p", "--limit", "3", "--profile", "--quiet"]).ends(0);
        assert!(
            said.err.starts_with("warning: there is no flame graph: this process may not copy"),
            "{}",
            said.err
        );
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    });
    let phases = phases(&place, "p");
    assert_eq!(count(&phases, "lease"), Some(3));
    assert!(phases["flame"]["reason"].as_str().unwrap().contains("process_vm_readv"), "{phases}");
    assert!(!folder(&place, "p").join("flame.svg").exists());
}
