//! `kill -9` at random moments, then `--resume`: the result equals an uninterrupted run.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use clawrl_core::SplitMix64;
use clawrl_record::{Ending, Run};
use rustix::process::Signal;

use crate::place::Place;

const KILLS: u32 = 20;

/// Tasks of 1/3 s, so that a run of 96 slots, six at once, takes several seconds.
fn place() -> Place {
    let place = Place::new();
    let text = crate::place::SMALL
        .replace("suite: small", "suite: steady")
        .replace("idle_millis: 300 }", "idle_millis: 600, setup: [\"sleep 0.3\"] }");
    place.suite("steady", &text);
    place
}

fn arguments(name: &str) -> Vec<&str> {
    let plan = "run steady --policy demonstrator:50 --seed 5 --group-size 8 --concurrency 6 --name";
    let mut words: Vec<&str> = plan.split(' ').collect();
    words.push(name);
    words
}

/// Score and stop reason of the attempt that closed each slot.
pub(super) fn closed(run: &Run) -> BTreeMap<u32, String> {
    let closing = run.attempts().filter(|attempt| attempt.closes_slot);
    closing
        .map(|attempt| {
            let Ending::Finished { score, stop, .. } = &attempt.ending else {
                panic!("{:?} did not finish", attempt)
            };
            (attempt.attempt.slot.0, format!("{score} {stop:?}"))
        })
        .collect()
}

/// Processes and control groups named after this process.
pub(super) fn left_by(run: &str, pid: u32) -> Vec<String> {
    let owner = format!("clawrl-{run}-{pid}-");
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = entries("/proc").filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.starts_with("clawrl-box ") && line.contains(&owner)).then_some(line)
    });
    let hierarchies = entries("/sys/fs/cgroup").map(|entry| entry.path());
    let groups = hierarchies
        .flat_map(|hierarchy| fs::read_dir(hierarchy).into_iter().flatten().flatten())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&owner))
        .map(|entry| entry.path().display().to_string());
    processes.chain(groups).collect()
}

/// Reads the journal's bytes directly, without our reader.
fn none_twice(place: &Place, name: &str) {
    let text = fs::read_to_string(place.results().join("runs").join(name).join("journal.jsonl")).unwrap();
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let resolved = &line["entry"]["resolved"];
        if resolved["closes_slot"] == true {
            *times.entry(resolved["attempt"]["slot"].as_u64().unwrap()).or_default() += 1;
        }
    }
    assert_eq!(times.len(), 96);
    assert!(times.values().all(|&times| times == 1), "{times:?}");
}

mod slow {
    use super::*;

    #[test]
    fn killed_twenty_times_a_run_ends_as_if_undisturbed() {
        let place = place();
        place.clawrl(&[&arguments("undisturbed")[..], &["--quiet"]].concat()).ends(0);
        let expected = closed(&place.run("undisturbed"));
        assert_eq!(expected.len(), 96);
        assert!(expected.values().any(|closed| closed.starts_with("1 ")));
        assert!(expected.values().any(|closed| closed.starts_with("0 ")));

        let mut random = SplitMix64::new(20);
        let (mut kills, mut session, mut resumed) = (0, 0, 0);
        while kills < KILLS {
            session += 1;
            let name = format!("killed-{session}");
            let resume = ["run", "--resume", &name];
            let mut before: Option<u32> = None;
            let mut words = arguments(&name);
            // Until there are enough kills, or the run ends between two of them.
            let done = loop {
                let mut live = place.start(&words);
                let id = live.id();
                if let Some(dead) = before {
                    resumed += 1;
                    // Printed after cleanup and journal repair.
                    if !live.hears_before_its_end("to go") {
                        // The kill came after the end was journaled, while the process was exiting.
                        let said = live.ended().ends(0);
                        assert!(said.err.contains("nothing left to do"), "{}", said.err);
                        break true;
                    }
                    assert_eq!(left_by(&name, dead), Vec::<String>::new(), "after kill {kills}");
                }
                // timer: the random moment itself; from before the first lease to the middle of the run.
                std::thread::sleep(Duration::from_millis(random.below(700)));
                live.signal(Signal::KILL);
                let said = live.ended();
                assert!(!said.err.contains("clawrl-sbx"), "{}", said.err);
                if said.code.is_some() {
                    break said.code == Some(0);
                }
                kills += 1;
                before = Some(id);
                let recorded = place.results().join("runs").join(&name).join("plan.json").exists();
                words = if recorded { resume.to_vec() } else { arguments(&name) };
                if kills == KILLS {
                    break false;
                }
            };
            if !done {
                let said = place.clawrl(&resume).ends(0);
                let ended_before = said.err.contains("nothing left to do");
                assert!(ended_before || said.out.contains("0 left behind"), "{}", said.out);
            }
            let run = place.run(&name);
            assert_eq!(closed(&run), expected, "{name}");
            none_twice(&place, &name);
        }
        assert!(resumed >= KILLS / 2, "{resumed} resumes are too few to mean anything");
    }
}
