//! Killed runs with a real browser.

use std::fs;

use rustix::process::Signal;

use super::killing::{closed, left_by};
use crate::place::Place;
use crate::suites::suite;

/// Browsers in a process's control groups: process ids and start times.
fn browsers_of(run: &str, pid: u32) -> Vec<(String, String)> {
    let owner = format!("clawrl-{run}-{pid}-");
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
    let own = processes.filter(|entry| {
        fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|groups| groups.contains(&owner))
    });
    own.filter_map(|entry| browser(&entry.file_name().to_string_lossy())).collect()
}

/// A browser's process id and start time, in ticks since boot.
fn browser(id: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    // The state comes first, the start time 19 words later. Zombies do not count.
    let mut words = rest.split_whitespace();
    let is_live = words.next() != Some("Z") && name.contains("chrom");
    is_live.then(|| (id.to_owned(), words.nth(18).unwrap_or_default().to_owned()))
}

#[test]
fn browsers_of_a_killed_run_are_gone_when_the_next_one_starts() {
    let place = Place::new();
    let suite = suite("gui-basics");
    let plan = ["run", &suite, "--policy", "oracle", "--limit", "8", "--concurrency", "2"];
    let mut live = place.start(&[&plan[..], &["--name", "killed"]].concat());
    let dead = live.id();
    let mut browsers = Vec::new();
    while browsers.is_empty() {
        live.hears("/8 closed");
        browsers = browsers_of("killed", dead);
    }
    live.signal(Signal::KILL);
    assert_eq!(live.ended().code, None);
    assert!(browsers.len() > 4, "{browsers:?}");

    let mut live = place.start(&["run", "--resume", "killed"]);
    live.hears("to go");
    let left: Vec<_> = browsers.iter().filter(|known| browser(&known.0).as_ref() == Some(known)).collect();
    assert_eq!((left_by("killed", dead), left), (Vec::new(), Vec::new()));
    let said = live.ended().ends(0);
    assert!(said.out.contains("0 left behind"), "{}", said.out);
    let run = place.run("killed");
    assert_eq!(closed(&run).values().filter(|closed| closed.starts_with("1 ")).count(), 8);
}
