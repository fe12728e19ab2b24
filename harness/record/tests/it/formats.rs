//! Records of older formats read and resume; newer ones are refused.
//!
//! `fixtures/format-0` is a run of four slots as format 0 was (see `src/migrate.rs`): 0 passed, 1 faulted once
//! and then failed, 2 was cancelled, 3 was under way when its process died.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_core::{Determinism, EpisodeSink, Epoch, FORMAT_VERSION, RunId, SlotId};
use clawrl_record::{RecordError, ResumeMode, Run, RunEnd, RunState, RunStore, RunWriter};

use crate::fixture::{self, attempt, block_on, fault, finished, lease, record};

fn format_0() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/format-0")
}

/// A copy that may be changed.
fn copied() -> (tempfile::TempDir, PathBuf) {
    let results = tempfile::tempdir().unwrap();
    let dir = results.path().join("runs/old-run");
    fs::create_dir_all(&dir).unwrap();
    for entry in fs::read_dir(format_0().join("runs/old-run")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    (results, dir)
}

fn run_id() -> RunId {
    RunId::new("old-run").unwrap()
}

#[test]
fn format_0_reads_as_if_it_were_ours() {
    let store = RunStore::open(&format_0()).unwrap();
    let info = store.info(&run_id());
    assert_eq!((info.state, info.problem), (RunState::Interrupted, None));
    assert_eq!((info.slots, info.closed, info.passed), (4, 2, 1));
    let read = store.run(&run_id()).unwrap();
    assert_eq!(read.plan().format, FORMAT_VERSION);
    assert_eq!(read.plan().determinism, Determinism::default());
    assert_eq!(read.lock_file().unwrap().limits_not_set[0].reason, "not recorded in format 0");
    assert_eq!(read.trajectory(attempt(1, 0)).unwrap(), record(lease(1, 0, 2), fault(), false, 2));
    assert_eq!(read.trajectories().unwrap().map(Result::unwrap).count(), 4);
    let total = read.summary().total;
    assert_eq!((total.finished, total.faulted_attempts, total.cancelled_attempts, total.open), (2, 1, 1, 2));
}

#[test]
fn format_0_resumes_as_ours() {
    let (results, dir) = copied();
    let before = Run::open_read(&dir).unwrap();
    // Format 0 had no checksums: a torn tail is a line without an end.
    let mut journal = fs::read(dir.join("journal.jsonl")).unwrap();
    journal.extend_from_slice(b"{\"kind\":\"resol");
    fs::write(dir.join("journal.jsonl"), journal).unwrap();
    let plan_bytes = fs::read(dir.join("plan.json")).unwrap();

    let (writer, plan, state) = RunWriter::resume(results.path(), &run_id(), ResumeMode::OpenSlots).unwrap();
    assert_eq!(&plan, before.plan());
    assert_eq!((state.open_slots, state.next_epoch), (vec![SlotId(2), SlotId(3)], Epoch(6)));
    assert_eq!(state.cut.unwrap().bytes, 14);
    block_on(async {
        for (slot, epoch) in [(2, 6), (3, 7)] {
            writer.sink().leased(lease(slot, 1, epoch)).await.unwrap();
            writer.sink().resolved(record(lease(slot, 1, epoch), finished(1.0), true, 1)).await.unwrap();
        }
    });
    writer.finish(RunEnd::Completed).unwrap();

    let read = Run::open_read(&dir).unwrap();
    let state = read.state().unwrap();
    assert_eq!(state.opened().format, FORMAT_VERSION);
    for old in before.attempts() {
        assert_eq!(state.attempt(old.attempt), Some(old));
    }
    assert_eq!(read.trajectories().unwrap().map(Result::unwrap).count(), 6, "frames of both formats");
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    assert!(journal.lines().all(|line| line.starts_with("{\"crc\":\"")));
    assert_eq!(fs::read(dir.join("plan.json")).unwrap(), plan_bytes, "the plan stays what its hash says");
}

#[test]
fn damage_inside_format_0_is_seen() {
    let (_results, dir) = copied();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    fs::write(dir.join("journal.jsonl"), journal.replacen("\"kind\":\"leased\"", "\"kind\":\"lea", 1))
        .unwrap();
    let error = Run::open_read(&dir).unwrap_err();
    assert!(matches!(error, RecordError::Damaged { line: 2, .. }), "{error}");
}

#[test]
fn newer_formats_are_refused_by_name() {
    let results = tempfile::tempdir().unwrap();
    let plan = fixture::plan("a", 1);
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap();
    let dir = writer.dir().to_owned();
    drop(writer);
    let path = dir.join("plan.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("{\"format\":1,", "{\"format\":9,\"era\":\"new\",", 1)).unwrap();
    let expected = format!(
        "{} has format 9, and this program reads formats 0 to 1; use the newer program that wrote it",
        path.display()
    );
    assert_eq!(Run::open_read(&dir).unwrap_err().to_string(), expected);
    let error = RunWriter::resume(results.path(), &plan.run, ResumeMode::OpenSlots).unwrap_err();
    assert_eq!(error.to_string(), expected);
}
