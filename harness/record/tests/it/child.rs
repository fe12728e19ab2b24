//! This test binary as a child process that writes a run, to be killed or starved by other tests.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use clawrl_core::{RunId, SinkError};
use clawrl_record::{ResumeMode, RunEnd, RunState, RunStore, RunWriter};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::fixture;

const RESULTS: &str = "CLAWRL_RECORD_TEST_RESULTS";
const SLOTS: &str = "CLAWRL_RECORD_TEST_SLOTS";
pub(crate) const RUN: &str = "child-run";

/// The child's body; on its own, a test that a run is written to its end.
#[test]
fn writes_a_run() {
    if let Some(results) = std::env::var_os(RESULTS) {
        let slots = std::env::var(SLOTS).unwrap().parse().unwrap();
        say(&match write_run(&PathBuf::from(results), slots, say) {
            Ok(()) => "ended".to_owned(),
            Err(message) => format!("failed {message}"),
        });
        return;
    }
    let results = tempfile::tempdir().unwrap();
    write_run(results.path(), 50, |_| {}).unwrap();
    let info = &RunStore::open(results.path()).unwrap().list().unwrap()[0];
    assert_eq!((info.state, info.closed), (RunState::Finished, 50));
}

/// Starts the child. `wrap` is a shell command line that ends in `"$@"`, or `None` to start it bare.
pub(crate) fn start(results: &Path, slots: u32, wrap: Option<&str>) -> (Child, BufReader<ChildStdout>) {
    let exe = std::env::current_exe().unwrap();
    let mut command = match wrap {
        None => Command::new(&exe),
        Some(script) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).arg(&exe);
            shell
        }
    };
    command.args(["child::writes_a_run", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(RESULTS, results).env(SLOTS, slots.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Output of the child, without that of the test harness.
pub(crate) fn sayings(output: BufReader<ChildStdout>) -> impl Iterator<Item = String> {
    output.lines().map_while(Result::ok).filter_map(|line| {
        let at = line.find("child: ")?;
        Some(line[at + "child: ".len()..].to_owned())
    })
}

fn say(what: &str) {
    // One write, past the capture of the test harness, so that output before a kill is complete.
    std::io::stdout().write_all(format!("child: {what}\n").as_bytes()).unwrap();
}

fn write_run(results: &Path, slots: u32, say: fn(&str)) -> Result<(), String> {
    let run = RunId::new(RUN).unwrap();
    let exists = results.join("runs").join(RUN).join("plan.json").exists();
    let (writer, open, numbers, first_epoch) = if exists {
        let resumed = RunWriter::resume(results, &run, ResumeMode::OpenSlots).map_err(|e| e.to_string())?;
        let (writer, _, state) = resumed;
        (writer, state.open_slots, state.next_numbers, state.next_epoch.0)
    } else {
        let plan = fixture::plan(RUN, slots);
        let writer = RunWriter::create(results, &plan, &fixture::lock(&plan)).map_err(|e| e.to_string())?;
        (writer, plan.slots.iter().map(|slot| slot.id).collect(), vec![0; slots as usize], 1)
    };
    let epoch = Cell::new(first_epoch);
    let sink = writer.sink();
    let filled: Result<(), SinkError> = fixture::block_on(
        stream::iter(open)
            .map(|slot| {
                let next = || epoch.replace(epoch.get() + 1);
                let told = |what: &str, lease: clawrl_core::LeaseRecord| {
                    say(&format!(
                        "{what} {} {} {}",
                        lease.attempt.slot.0, lease.attempt.number, lease.epoch.0
                    ));
                };
                fixture::fill(&sink, slot.0, numbers[slot.0 as usize], next, told)
            })
            .buffer_unordered(16)
            .try_collect(),
    );
    filled.map_err(|error| error.message)?;
    writer.finish(RunEnd::Completed).map(drop).map_err(|error| error.to_string())
}
