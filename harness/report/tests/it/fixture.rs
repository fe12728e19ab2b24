//! A run with everything that a report has to tell of, written by the record's own writer.

use std::path::Path;

use clawrl_core::{
    AttemptId, AttemptRecord, Boundary, CancelReason, CheckReport, EpisodeSink, Epoch, FORMAT_VERSION, Fault,
    Grade, LeaseRecord, Outcome, PhaseTimes, RunId, RunPlan, SlotId, StopReason, TerminalSpec, Timeouts,
    Trajectory,
};
use clawrl_record::{LockFile, Run, RunEnd, RunStore, RunWriter};
use clawrl_report::{Heading, Options, Report, report};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Text that would break out of the page.
pub(crate) const HOSTILE: &str =
    "</script><script>alert(1)</script><!-- \u{2028}\u{2029}\u{202e}\u{0}\"'><img src=x onerror=alert(2)>";

const RUN: &str = "fixture";
/// (suite, family, instruction) of each task; each has a group of four slots.
const TASKS: [(u32, &str, &str); 4] = [
    (0, "copy-line", "Copy the first line of a.txt to b.txt."),
    (0, "sort", "Sort names.txt."),
    (0, "count", "Count the words of text.txt."),
    (1, "<b>find & co</b>", HOSTILE),
];
const SUITES: [&str; 2] = ["terminal-basics", "more"];

fn plan() -> RunPlan {
    let task = |(suite, family, instruction): (u32, &str, &str)| {
        json!({
            "id": format!("{}/{family}", SUITES[suite as usize]), "suite": SUITES[suite as usize], "family": family,
            "instruction": instruction, "env": { "terminal": TerminalSpec::default() }, "checks": [],
            "reward": { "scale": 2.0, "offset": -1.0 }, "action_format": "raw", "max_turns": 20,
            "timeouts": Timeouts::default(),
        })
    };
    let slot = |id: u32| {
        json!({
            "id": id, "task": id / 4, "suite": TASKS[id as usize / 4].0, "group": id / 4, "member": id % 4,
            "env_seed": id / 4, "policy_seed": id,
        })
    };
    let suite = |name: &str| {
        let path = format!("tasks/{name}/suite.yaml");
        json!({ "name": name, "path": path, "sha256": "5e".repeat(32), "weight": 1 })
    };
    from(json!({
        "format": FORMAT_VERSION, "run": RUN, "seed": 7, "suites": SUITES.map(suite),
        "policy": { "torch": { "path": "policies/tiny", "temperature_milli": 1_000, "max_new_tokens": 64 } },
        "tasks": TASKS.map(task),
        "slots": (0..16).map(slot).collect::<Vec<_>>(),
        "limits": { "concurrency": 16, "prewarm": 0, "max_retries": 1, "max_faults": null },
        "determinism": clawrl_core::Determinism::default(),
    }))
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn micros(us: u64) -> Value {
    json!({ "secs": us / 1_000_000, "nanos": us % 1_000_000 * 1_000 })
}

/// Three turns: one as the suite expects it, one hostile, one malformed.
fn trajectory(instruction: &str) -> Trajectory {
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let message = |role: &str, said: &str| json!({ "role": role, "parts": text(said) });
    let cast = json!(format!("echo hello\r\nhello\r\n\u{1b}[31mred {HOSTILE}\u{1b}[0m"));
    from(json!({
        "prompt": [message("user", &format!("{instruction}\n\n$ "))],
        "reset": {
            "parts": text("$ "),
            "tools": [
                {
                    "name": "run", "description": "Runs a command.", "parameters": { "type": "object" },
                    "text_argument": "command",
                },
                { "name": "submit", "description": "Ends.", "parameters": { "type": "object" } },
            ],
        },
        "turns": [
            {
                "reply": message("assistant", "sort names.txt > sorted.txt"),
                "calls": [{ "name": "run", "arguments": { "command": "sort names.txt > sorted.txt" } }],
                "observation": {
                    "parts": text("[exit 0]"), "facts": { "exit_code": 0, "end": "completed", "folder": "/work" },
                },
                "policy_time": micros(15), "step_time": micros(1_500),
            },
            {
                "reply": message("assistant", HOSTILE),
                "calls": [
                    { "id": "a", "name": "run", "arguments": { "command": HOSTILE } },
                    { "id": "a", "name": "run", "arguments": { "command": "ls", "wait": true } },
                ],
                "observation": {
                    "parts": text(HOSTILE), "facts": { "exit_code": 2, "notes": [HOSTILE] },
                    "full_text": format!("{HOSTILE} in full"),
                },
                "usage": {
                    "source": "estimated", "input_tokens": 1_200, "cached_tokens": 1_000, "output_tokens": 34,
                    "cost_nano_usd": 2_500_000, "retries": 1, "notes": ["usage-missing"],
                },
                "tokens": { "ids": [5, 7, 2], "logprobs": [-0.5, -1.25, 0.0], "versions": [[0, 3]] },
                "policy_time": micros(25), "step_time": micros(250_000),
            },
            {
                "reply": message("assistant", ""), "calls": [], "flags": { "malformed": true },
                "observation": { "parts": text("[error: the action is empty]") },
                "policy_time": micros(5), "step_time": micros(0),
            },
        ],
        "cast": format!(
            "{{\"version\":2,\"width\":80,\"height\":24}}\n[0.1,\"o\",\"$ \"]\n[2.5,\"i\",\"echo hello\\r\"]\n\
             [2.6,\"o\",{cast}]\n"
        ),
    }))
}

pub(crate) fn finished(score: f64) -> Outcome {
    let check = |label: &str, score: f64, message: &str| CheckReport {
        label: label.to_owned(),
        score,
        weight: 1.0,
        message: message.to_owned(),
    };
    let checks = vec![
        check("file_equals sorted.txt", score, HOSTILE),
        check("file_absent junk", 1.0, "nothing is there"),
    ];
    let grade =
        Grade::from_checks(checks, if score < 1.0 { vec!["symlink-refused".to_owned()] } else { Vec::new() });
    Outcome::Finished { stop: StopReason::Submitted, reward: 2.0 * grade.score - 1.0, grade }
}

fn fault() -> Outcome {
    Outcome::Faulted(Fault::transient(Boundary::Env, "shell-lost", format!("the shell ended; {HOSTILE}")))
}

/// Attempts at a slot: outcome, and whether it closes the slot.
fn script(slot: u32) -> Vec<(Outcome, bool)> {
    let closing = |outcome| vec![(outcome, true)];
    match slot {
        // All of the first task pass, half of the second.
        0..=3 => closing(finished(1.0)),
        4..=7 => closing(finished(f64::from(slot % 2))),
        // A retry that helped, a failure, a fault that stayed, and one that we gave up.
        8 => vec![(fault(), false), (finished(1.0), true)],
        9 => closing(finished(0.0)),
        10 => vec![(fault(), false), (fault(), true)],
        11 => vec![(Outcome::Cancelled(CancelReason::Interrupted), false)],
        // The last slot is never tried.
        12..=14 => closing(finished(0.0)),
        _ => Vec::new(),
    }
}

/// A results folder.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Opens a run and writes nothing more; the writer lives.
    pub(crate) fn opened(&self) -> RunWriter {
        let plan = plan();
        let host = [("cpus".to_owned(), "2".to_owned())].into_iter().collect();
        RunWriter::create(self.path(), &plan, &LockFile::new(&plan, "clawrl 0.1.0", host, Vec::new()))
            .unwrap()
    }

    /// A whole run, ended by a person.
    pub(crate) fn with_run() -> Self {
        let place = Self::new();
        let writer = place.opened();
        fill(&writer, 0..16);
        writer.finish(RunEnd::Interrupted).unwrap();
        place
    }

    pub(crate) fn run(&self) -> Run {
        RunStore::open(self.path()).unwrap().run(&RunId::new(RUN).unwrap()).unwrap()
    }

    /// Its report, with room for this many bytes of attempts.
    pub(crate) fn report(&self, page_bytes: u64) -> Report {
        self.report_with(&Options { page_bytes, ..Options::default() })
    }

    pub(crate) fn report_with(&self, options: &Options) -> Report {
        report(&self.run(), &heading(), options).unwrap()
    }

    pub(crate) fn trajectories(&self) -> std::path::PathBuf {
        self.path().join("runs").join(RUN).join("trajectories.zst")
    }
}

pub(crate) fn heading() -> Heading {
    Heading { policy: "torch:policies/tiny, temperature 1".to_owned(), state: "interrupted".to_owned() }
}

/// Fills these slots as their script says.
pub(crate) fn fill(writer: &RunWriter, slots: std::ops::Range<u32>) {
    let sink = writer.sink();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for slot in slots {
            for (number, (outcome, closes_slot)) in (0..).zip(script(slot)) {
                let attempt = AttemptId { slot: SlotId(slot), number };
                let lease = LeaseRecord { attempt, epoch: Epoch(u64::from(slot * 2 + number + 1)) };
                sink.leased(lease).await.unwrap();
                sink.resolved(record(lease, outcome, closes_slot)).await.unwrap();
            }
        }
    });
}

pub(crate) fn record(lease: LeaseRecord, outcome: Outcome, closes_slot: bool) -> AttemptRecord {
    let slot = lease.attempt.slot.0;
    let has_begun = !matches!(outcome, Outcome::Cancelled(_));
    let at = |us: u64| std::time::Duration::from_micros(us);
    AttemptRecord {
        attempt: lease.attempt,
        epoch: lease.epoch,
        closes_slot,
        outcome,
        times: PhaseTimes {
            lease: at(90),
            setup: at(2_000 + u64::from(slot)),
            policy: at(45),
            step: at(251_500),
            grade: at(7_000),
            close: at(400),
        },
        trajectory: if has_begun { trajectory(TASKS[slot as usize / 4].2) } else { Trajectory::default() },
    }
}
