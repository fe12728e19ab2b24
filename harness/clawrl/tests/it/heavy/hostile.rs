//! The suite of attacks, with targets on the host: canaries, listeners and neighbours.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use clawrl_core::{Outcome, TaskId};

use crate::place::Place;

/// Processes of the attacks that must be gone: the daemon and the program that replaced a shell.
const MARKED_PROGRAMS: [&str; 2] = ["sleep 987", "sleep 986"];

/// Files and listeners on the host that the attacks search for, as listed in the suite's README.
struct Canaries {
    files: Vec<PathBuf>,
    _tcp: Option<TcpListener>,
    _abstract_socket: Option<UnixListener>,
}

impl Canaries {
    fn plant() -> Self {
        let folders = ["/tmp", "/var/tmp", "/srv", "/opt", "/mnt", "/home", "/root"];
        let files: Vec<PathBuf> = folders
            .iter()
            .map(|folder| Path::new(folder).join("clawrl-host-canary"))
            // A normal user creates those that it may.
            .filter(|path| std::fs::write(path, "canary\n").is_ok())
            .collect();
        assert!(!files.is_empty());
        let name = SocketAddr::from_abstract_name("clawrl-host-canary").unwrap();
        Self {
            files,
            _tcp: TcpListener::bind("127.0.0.1:47113").ok(),
            _abstract_socket: UnixListener::bind_addr(&name).ok(),
        }
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn suite(name: &str) -> String {
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name);
    tasks.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn mounts() -> BTreeSet<String> {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect()
}

/// Processes that this run left behind.
fn left_by(run: &str) -> Vec<String> {
    let label = format!("clawrl-box clawrl-{run}-");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " "));
    lines.filter(|line| MARKED_PROGRAMS.contains(&line.as_str()) || line.starts_with(&label)).collect()
}

/// A copy of a suite that every user can read.
fn copied(place: &Place, name: &str) -> String {
    let to = place.path().join(name);
    let status = std::process::Command::new("cp").arg("-r").arg(suite(name)).arg(&to).status().unwrap();
    assert!(status.success());
    let open = std::process::Command::new("chmod").args(["-R", "a+rX"]).arg(&to).status().unwrap();
    assert!(open.success());
    to.to_str().unwrap().to_owned()
}

fn every_attack_is_harmless(place: &Place) {
    let canaries = Canaries::plant();
    let before = mounts();
    let attacks = copied(place, "terminal-hostile");
    let mut command =
        place.command(&["run", &attacks, "--policy", "oracle", "--name", "attacks", "--repeats", "2"]);
    let output = command.env("CLAWRL_HOST_CANARY", "canary").output().unwrap();
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}\n{log}");
    let run = place.run("attacks");
    let failed: Vec<(TaskId, String)> = run
        .attempts()
        .map(|summary| run.trajectory(summary.attempt).unwrap())
        .filter(|record| !matches!(&record.outcome, Outcome::Finished { grade, .. } if grade.passed))
        .map(|record| {
            let slot = &run.plan().slots[record.attempt.slot.0 as usize];
            (run.plan().task_of(slot).id.clone(), format!("{:?}", record.outcome))
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for file in &canaries.files {
        assert_eq!(std::fs::read_to_string(file).unwrap(), "canary\n", "{}", file.display());
    }
    assert_eq!(left_by("attacks"), Vec::<String>::new());
    assert_eq!(mounts(), before);
    // The whole record is readable text.
    for record in run.trajectories().unwrap() {
        serde_json::to_string(&record.unwrap()).unwrap();
    }
}

#[test]
fn no_trap_for_the_grader_passes() {
    let place = Place::new();
    let attacks = copied(&place, "terminal-hostile");
    let arguments = [
        "run",
        &attacks,
        "--policy",
        "demonstrator:0",
        "--name",
        "traps",
        "--repeats",
        "8",
        "--filter",
        "symlink-trap",
        "--filter",
        "fifo-trap",
    ];
    place.clawrl(&arguments).ends(0);
    let run = place.run("traps");
    let mut flags = BTreeSet::new();
    for summary in run.attempts() {
        let record = run.trajectory(summary.attempt).unwrap();
        let grade = record.outcome.grade().unwrap();
        assert!(!grade.passed, "{:?}", record.trajectory.turns);
        flags.extend(grade.flags.clone());
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains("root:x:0:0:root"), "content of the host's files in the record");
    }
    assert!(flags.contains("symlink-refused") && flags.contains("not-regular"), "{flags:?}");
}

/// An attack in one shell must not affect 255 others.
#[test]
fn a_fault_in_one_shell_is_alone_among_255_others() {
    let place = Place::new();
    place.suite(
        "crowd",
        r#"
format: 1
suite: crowd
vars: { numbers: { lines: numbers.txt } }
defaults:
  step_timeout_secs: 60
  env: { terminal: { memory_mib: 32, disk_mib: 2, pids: 24 } }
tasks:
  - id: neighbour
    template: { number: { from: numbers } }
    instances: all
    instruction: Write {{ number }} into out.txt.
    checks: [ { file_equals: { path: out.txt, expected: "{{ number }}\n" } } ]
    oracle: { commands: ["sleep 1", "echo {{ number }} > out.txt", "sleep 1"] }
  - id: broken
    instruction: Fail.
    env: { terminal: { setup: ["exit_with() { return 3; }; exit_with"] } }
    checks: [ { file_absent: { path: never.txt } } ]
    oracle: { commands: ["true"] }
"#,
    );
    let numbers: Vec<String> = (0..255).map(|number| format!("n{number}")).collect();
    std::fs::write(place.path().join("tasks/crowd/numbers.txt"), numbers.join("\n")).unwrap();
    let arguments =
        ["run", "crowd", "--policy", "oracle", "--name", "crowd", "--concurrency", "256", "--prewarm", "256"];
    let said = place.clawrl(&arguments).ends(4);
    let run = place.run("crowd");
    let summary = run.summary();
    assert_eq!((summary.total.finished, summary.total.passed), (255, 255), "{}\n{}", said.out, said.err);
    assert_eq!(left_by("crowd"), Vec::<String>::new());
}

mod slow {
    use super::*;

    #[test]
    fn attacks_are_harmless_as_whoever_runs_the_tests() {
        every_attack_is_harmless(&Place::new());
    }

    #[test]
    fn attacks_are_harmless_as_a_normal_user() {
        every_attack_is_harmless(&Place::of_normal_user());
    }
}
