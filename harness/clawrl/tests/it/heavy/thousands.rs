//! Two thousand sandboxed shells in one run, all alive at once.

use std::path::Path;

use crate::place::Place;

const SHELLS: u32 = 2_000;

/// Whether the machine has enough free terminals, memory and process ids.
fn has_room() -> bool {
    let number = |path: &str| -> u64 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let available: u64 = available.split_whitespace().next().unwrap().parse().unwrap();
    number("/proc/sys/kernel/pty/max") >= 4_096
        && number("/proc/sys/kernel/pid_max") >= 16_384
        && available >= 8 << 20
}

mod slow {
    use super::*;

    #[test]
    fn two_thousand_at_once_without_a_fault_and_without_a_trace() {
        if !has_room() {
            println!("not run: this machine has no room for {SHELLS} shells at once");
            return;
        }
        let place = Place::new();
        let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/terminal-basics");
        let shells = SHELLS.to_string();
        let arguments = [
            "run",
            suite.to_str().unwrap(),
            "--policy",
            "oracle",
            "--name",
            "thousands",
            "--limit",
            "400",
            "--repeats",
            "5",
            "--concurrency",
            &shells,
            "--prewarm",
            &shells,
            "--json",
        ];
        let said = place.clawrl(&arguments).ends(0);
        let run = place.run("thousands");
        let total = run.summary().total;
        // Failed attempts print their reason: one of thousands is hard to reproduce.
        let others: Vec<String> = run
            .attempts()
            .filter(|attempt| !attempt.passed())
            .map(|attempt| {
                place.clawrl(&["show", "thousands", "--attempt", &attempt.attempt.to_string()]).out
            })
            .collect();
        assert_eq!(
            (total.slots, total.finished, total.passed),
            (SHELLS, SHELLS, SHELLS),
            "{}\n{}",
            others.join("\n"),
            said.err
        );
        assert!(said.json()["peak_environments"].as_u64() >= Some(SHELLS.into()), "{}", said.out);
        assert_eq!(said.json()["leftovers"], serde_json::json!([]));
    }
}
