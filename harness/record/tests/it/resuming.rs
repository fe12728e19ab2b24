//! Resuming: open slots, cuts and refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{CancelReason, EpisodeSink, Epoch, Outcome, RunId, SlotId};
use clawrl_record::{
    LockFile, RecordError, Redactor, ResumeMode, ResumeState, Run, RunEnd, RunState, RunStore, RunWriter,
};

use crate::fixture::{self, attempt, block_on, fault, finished, lease, record};

fn run_id() -> RunId {
    RunId::new("a").unwrap()
}

/// A run of six slots: 0 passed, 1 faulted once and then passed, 2 closed by a fault, 3 cancelled, 4 leased
/// when the process ended, 5 untouched.
fn interrupted() -> (tempfile::TempDir, PathBuf) {
    let results = tempfile::tempdir().unwrap();
    let plan = fixture::plan("a", 6);
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap();
    let dir = writer.dir().to_owned();
    let steps = [
        (lease(0, 0, 1), Some((finished(1.0), true))),
        (lease(1, 0, 2), Some((fault(), false))),
        (lease(1, 1, 3), Some((finished(1.0), true))),
        (lease(2, 0, 4), Some((fault(), true))),
        (lease(3, 0, 5), Some((Outcome::Cancelled(CancelReason::Interrupted), false))),
        (lease(4, 0, 6), None),
    ];
    let sink = writer.sink();
    block_on(async {
        for (lease, ending) in steps {
            sink.leased(lease).await.unwrap();
            if let Some((outcome, closes_slot)) = ending {
                sink.resolved(record(lease, outcome, closes_slot, 2)).await.unwrap();
            }
        }
    });
    writer.close().unwrap();
    (results, dir)
}

fn resume(results: &Path, mode: ResumeMode) -> Result<(RunWriter, ResumeState), RecordError> {
    RunWriter::resume(results, &run_id(), mode).map(|(writer, _, state)| (writer, state))
}

#[test]
fn open_slots_run_again() {
    let (results, _) = interrupted();
    let (writer, state) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!(state.open_slots, [3, 4, 5].map(SlotId));
    assert_eq!(state.next_epoch, Epoch(7));
    assert_eq!(state.next_numbers, [1, 2, 1, 1, 1, 0]);
    let closed: Vec<_> = state.closed.iter().map(|summary| summary.attempt).collect();
    assert_eq!(closed, [attempt(0, 0), attempt(1, 1), attempt(2, 0)]);
    assert_eq!(state.cut, None);
    drop(writer);
    let (_, again) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!(again, state, "resuming twice is resuming once");
}

#[test]
fn faulted_slots_reopen_on_demand() {
    let (results, dir) = interrupted();
    let (writer, state) = resume(results.path(), ResumeMode::RetryFaulted).unwrap();
    assert_eq!(state.open_slots, [2, 3, 4, 5].map(SlotId));
    let sink = writer.sink();
    block_on(async {
        for (slot, number, epoch) in [(2, 1, 7), (3, 1, 8), (4, 1, 9), (5, 0, 10)] {
            let lease = lease(slot, number, epoch);
            sink.leased(lease).await.unwrap();
            sink.resolved(record(lease, finished(1.0), true, 1)).await.unwrap();
        }
    });
    let summary = writer.finish(RunEnd::Completed).unwrap();
    assert_eq!((summary.total.passed, summary.total.faulted, summary.total.lost_attempts), (6, 0, 1));
    assert_eq!(
        summary.faults.iter().map(|fault| (fault.attempts, fault.slots)).collect::<Vec<_>>(),
        [(2, 0)]
    );
    let read = Run::open_read(&dir).unwrap();
    assert_eq!(read.summary(), summary);
    let stored = fs::read(dir.join("summary.json")).unwrap();
    assert_eq!(serde_json::from_slice::<clawrl_record::RunSummary>(&stored).unwrap(), summary);
    assert_eq!(read.trajectories().unwrap().filter(Result::is_ok).count(), 9);
    assert!(read.cast(attempt(5, 0)).unwrap().unwrap().starts_with("{\"version\":2"));

    // A finished run resumes too: nothing is open then.
    let (_, state) = resume(results.path(), ResumeMode::RetryFaulted).unwrap();
    assert!(state.open_slots.is_empty());
}

#[test]
fn a_torn_tail_is_cut_and_reported() {
    let (results, dir) = interrupted();
    let journal = dir.join("journal.jsonl");
    let trajectories = dir.join("trajectories.zst");
    let whole = (fs::read(&journal).unwrap(), fs::read(&trajectories).unwrap());
    fs::write(&journal, [whole.0.as_slice(), b"{\"crc\":\"0123"].concat()).unwrap();
    fs::write(&trajectories, [whole.1.as_slice(), b"half a frame"].concat()).unwrap();

    let listed = RunStore::open(results.path()).unwrap().info(&run_id());
    assert_eq!(listed.state, RunState::Interrupted);
    assert_eq!(
        listed.problem.unwrap(),
        "the last 12 bytes of the journal are incomplete; `--resume` removes them"
    );

    let (writer, state) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!(state.cut.as_ref().unwrap().bytes, 12);
    assert_eq!(state.open_slots, [3, 4, 5].map(SlotId));
    drop(writer);
    assert!(fs::read(&journal).unwrap().starts_with(&whole.0));
    assert_eq!(fs::read(&trajectories).unwrap(), whole.1);
}

#[test]
fn damage_before_the_tail_is_an_error_with_remedy() {
    let (results, dir) = interrupted();
    let journal = dir.join("journal.jsonl");
    let mut bytes = fs::read(&journal).unwrap();
    let third = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    bytes[third + 40] ^= 4;
    fs::write(&journal, &bytes).unwrap();
    let text = resume(results.path(), ResumeMode::OpenSlots).unwrap_err().to_string();
    let text = text.replace(dir.to_str().unwrap(), "DIR");
    insta::with_settings!({filters => vec![("[0-9a-f]{8}", "CRC")]}, {
        insta::assert_snapshot!(
            text,
            @"DIR/journal.jsonl is damaged at line 3: its checksum is CRC, expected CRC. Restore the file from a copy. Without one, `truncate -s 245 DIR/journal.jsonl` keeps everything before that line; `--resume` repeats the rest"
        );
    });
    assert_eq!(fs::read(&journal).unwrap(), bytes, "nothing was changed");
    let listed = RunStore::open(results.path()).unwrap().info(&run_id());
    assert_eq!(listed.state, RunState::Damaged);

    // The remedy in the message works.
    fs::write(&journal, &bytes[..third]).unwrap();
    let (_, state) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!(state.open_slots.len(), 6);
}

#[test]
fn synced_trajectories_must_exist() {
    let (results, dir) = interrupted();
    let trajectories = dir.join("trajectories.zst");
    let bytes = fs::read(&trajectories).unwrap();
    fs::write(&trajectories, &bytes[..bytes.len() - 1]).unwrap();
    let error = resume(results.path(), ResumeMode::OpenSlots).unwrap_err();
    assert!(matches!(error, RecordError::TrajectoriesDamaged { .. }), "{error}");

    let mut flipped = bytes.clone();
    flipped[5] ^= 1;
    fs::write(&trajectories, &flipped).unwrap();
    let read = Run::open_read(&dir).unwrap();
    let error = read.trajectory(attempt(0, 0)).unwrap_err();
    assert!(error.to_string().contains("the frame of attempt s0.0: its checksum is "), "{error}");
    assert!(read.trajectory(attempt(1, 0)).is_ok(), "others are not affected");
    assert!(matches!(read.trajectory(attempt(5, 0)), Err(RecordError::NoSuchAttempt { .. })));
}

#[test]
fn a_changed_plan_is_refused() {
    let (results, dir) = interrupted();
    let plan = fs::read_to_string(dir.join("plan.json")).unwrap();
    fs::write(dir.join("plan.json"), plan.replace("\"seed\":7,", "\"seed\":8,")).unwrap();
    let before = fs::read(dir.join("journal.jsonl")).unwrap();
    let error = resume(results.path(), ResumeMode::OpenSlots).unwrap_err();
    assert!(matches!(error, RecordError::PlanChanged { .. }), "{error}");
    assert_eq!(fs::read(dir.join("journal.jsonl")).unwrap(), before);
}

#[test]
fn a_run_that_never_opened_its_journal_begins() {
    let (results, dir) = interrupted();
    for name in ["journal.jsonl", "trajectories.zst"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    assert_eq!(Run::open_read(&dir).unwrap().summary().total.open, 6);
    let (writer, state) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!((state.open_slots.len(), state.next_epoch), (6, Epoch(1)));
    block_on(writer.sink().leased(lease(0, 0, 1))).unwrap();
}

#[test]
fn a_lost_journal_is_no_new_run() {
    let (results, dir) = interrupted();
    fs::remove_file(dir.join("journal.jsonl")).unwrap();
    let error = resume(results.path(), ResumeMode::OpenSlots).unwrap_err();
    assert!(matches!(error, RecordError::Unreadable { .. }), "{error}");
}

#[test]
fn one_writer_at_a_time() {
    let (results, dir) = interrupted();
    let (writer, _) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    let store = RunStore::open(results.path()).unwrap();
    assert!(matches!(resume(results.path(), ResumeMode::OpenSlots), Err(RecordError::Running { .. })));
    assert!(matches!(store.remove_run(&run_id()), Err(RecordError::Running { .. })));
    assert_eq!(store.info(&run_id()).state, RunState::Running);
    drop(writer);
    assert_eq!(store.info(&run_id()).state, RunState::Interrupted);
    store.remove_run(&run_id()).unwrap();
    assert!(!dir.exists());
    assert!(matches!(store.remove_run(&run_id()), Err(RecordError::NoSuchRun { .. })));
}

#[test]
fn a_refused_line_fails_its_caller_only() {
    let results = tempfile::tempdir().unwrap();
    let plan = fixture::plan("a", 2);
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap();
    let sink = writer.sink();
    block_on(async {
        let unleased = record(lease(0, 0, 1), finished(1.0), true, 1);
        let error = sink.resolved(unleased).await.unwrap_err();
        assert!(error.message.contains("s0.0 resolved without a lease"), "{error}");
        sink.leased(lease(1, 0, 1)).await.unwrap();
    });
    let error = writer.finish(RunEnd::Interrupted).unwrap_err();
    assert!(error.to_string().contains("the run finished while s1.0 was under way"), "{error}");
    let error = block_on(sink.leased(lease(0, 0, 2))).unwrap_err();
    assert_eq!(error.message, "the run's journal is closed; the record was not written");
    let (writer, state) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    assert_eq!((state.open_slots.len(), state.next_epoch), (2, Epoch(2)));

    block_on(writer.sink().leased(lease(1, 1, 2))).unwrap();
    let summary = writer.finish(RunEnd::HarnessFault).unwrap();
    assert_eq!(
        (summary.total.lost_attempts, summary.total.open),
        (2, 2),
        "a harness fault may leave some behind"
    );
}

/// The redactor of these secrets; their values do not matter.
fn redactor(names: &[&str]) -> Redactor {
    Redactor::new(names.iter().map(|name| ((*name).to_owned(), format!("value-of-{name}")))).unwrap()
}

#[test]
fn lock_file_adds_redacted_names_only() {
    let (results, dir) = interrupted();
    let path = dir.join("lock.json");
    let mut written: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // A later program of this format may write more.
    written["of_a_later_program"] = true.into();
    fs::write(&path, written.to_string()).unwrap();
    let check = |expected: &[&str]| {
        let mut now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let lock: LockFile = serde_json::from_value(now.clone()).unwrap();
        assert_eq!(lock.redacted, expected);
        now.as_object_mut().unwrap().remove("redacted");
        assert_eq!(now, written);
    };
    let (writer, _) = resume(results.path(), ResumeMode::OpenSlots).unwrap();
    check(&[]);
    let writer = writer.redacting(Arc::new(redactor(&["B", "A"]))).unwrap();
    check(&["B", "A"]);
    let store = RunStore::open(results.path()).unwrap();
    let refused = store.redact(&run_id(), &redactor(&["C"])).unwrap_err();
    assert!(matches!(refused, RecordError::Running { .. }), "{refused}");
    writer.close().unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    store.redact(&run_id(), &redactor(&["A"])).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before, "nothing is new");
    store.redact(&run_id(), &redactor(&["A", "C"])).unwrap();
    check(&["B", "A", "C"]);
}

#[test]
fn a_run_of_an_older_format_can_be_redacted() {
    let (results, dir) = interrupted();
    let path = dir.join("lock.json");
    let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    old["format"] = 0.into();
    old["limits_not_set"] = serde_json::json!(["memory_mib"]);
    fs::write(&path, old.to_string()).unwrap();
    let store = RunStore::open(results.path()).unwrap();
    store.redact(&run_id(), &redactor(&["A"])).unwrap();
    let lock = store.run(&run_id()).unwrap().lock_file().unwrap();
    assert_eq!((lock.redacted, lock.limits_not_set.len()), (vec!["A".to_owned()], 1));
}
