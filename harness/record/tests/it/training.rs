//! The run of a training: its train file, its figures, and going back to a checkpoint.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clawrl_core::{EpisodeSink, Epoch, GroupId, RunId, RunPlan, SlotId};
use clawrl_record::{
    Metric, MetricRow, RecordError, ResumeMode, ResumeState, Run, RunEnd, RunState, RunStore, RunWriter,
};
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::{self, attempt, block_on, fault, finished, lease, record};

fn run_id() -> RunId {
    RunId::new("a").unwrap()
}

/// Groups of two.
fn plan(slots: u32) -> RunPlan {
    let mut plan = fixture::plan("a", slots);
    for slot in &mut plan.slots {
        (slot.group, slot.member) = (GroupId(slot.id.0 / 2), slot.id.0 % 2);
    }
    plan
}

fn train() -> serde_json::Value {
    json!({ "name": "tiny", "rl": { "learning_rate": 0.1 } })
}

/// A training of four groups: 0 and 2 are whole, 1 has a slot closed by a fault and one that passed, 3 has an open slot.
/// Two updates have been made.
fn interrupted() -> (tempfile::TempDir, PathBuf) {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(8);
    let writer = RunWriter::create_training(results.path(), &plan, &fixture::lock(&plan), &train()).unwrap();
    let dir = writer.dir().to_owned();
    fs::create_dir(writer.checkpoints_dir()).unwrap();
    fs::write(writer.checkpoints_dir().join("00000001.safetensors"), b"weights").unwrap();
    let sink = writer.sink();
    block_on(async {
        for (slot, outcome) in [
            (0, finished(1.0)),
            (1, finished(0.0)),
            (2, fault()),
            (3, finished(1.0)),
            (4, finished(1.0)),
            (5, finished(0.0)),
            (6, finished(1.0)),
        ] {
            let lease = lease(slot, 0, u64::from(slot) + 1);
            sink.leased(lease).await.unwrap();
            sink.resolved(record(lease, outcome, true, 1)).await.unwrap();
        }
        for update in [1, 2] {
            let rows = MetricRow::of_update(update, update, &[(Metric::TrainRewardMean, update as f64)]);
            sink.metrics(rows).await.unwrap();
        }
        sink.metrics(vec![MetricRow::new(9, Metric::SlotsOpenCount, 1.0)]).await.unwrap();
    });
    writer.close().unwrap();
    (results, dir)
}

fn back_to(results: &Path, update: u64, consumed: &[u32]) -> (RunWriter, ResumeState) {
    let consumed: BTreeSet<GroupId> = consumed.iter().copied().map(GroupId).collect();
    let mode = ResumeMode::RollBack { update, consumed };
    let (writer, _, state) = RunWriter::resume(results, &run_id(), mode).unwrap();
    (writer, state)
}

#[test]
fn the_train_file_is_kept_and_vouched_for() {
    let (results, dir) = interrupted();
    let read = Run::open_read(&dir).unwrap();
    assert_eq!(read.train().unwrap(), Some(train()));
    let path = dir.join("train.json");
    let changed = fs::read_to_string(&path).unwrap().replace("0.1", "0.2");
    fs::write(&path, changed).unwrap();
    let error = Run::open_read(&dir).unwrap_err();
    assert!(matches!(&error, RecordError::PlanChanged { path: named, .. } if *named == path), "{error}");
    let error = RunWriter::resume(results.path(), &run_id(), ResumeMode::OpenSlots).unwrap_err();
    assert!(matches!(error, RecordError::PlanChanged { .. }), "{error}");
}

#[test]
fn a_run_that_is_no_training_has_no_train_file() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(2);
    // The folder of a process that died before it wrote a plan.
    fs::create_dir_all(results.path().join("runs/a")).unwrap();
    fs::write(results.path().join("runs/a/train.json"), "{}").unwrap();
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap();
    assert_eq!(Run::open_read(writer.dir()).unwrap().train().unwrap(), None);
}

#[test]
fn unconsumed_groups_run_again_completely() {
    let (results, dir) = interrupted();
    let (writer, state) = back_to(results.path(), 1, &[0]);
    assert_eq!(state.open_slots, [2, 3, 4, 5, 6, 7].map(SlotId));
    assert_eq!(state.next_epoch, Epoch(8));
    assert_eq!(state.next_numbers, [1, 1, 1, 1, 1, 1, 1, 0]);
    let closed: Vec<_> = state.closed.iter().map(|summary| summary.attempt).collect();
    assert_eq!(closed, [attempt(0, 0), attempt(1, 0)]);
    let sink = writer.sink();
    block_on(async {
        for (slot, number) in [(2, 1), (3, 1), (4, 1)] {
            let lease = lease(slot, number, u64::from(slot) + 10);
            sink.leased(lease).await.unwrap();
            sink.resolved(record(lease, finished(0.0), true, 2)).await.unwrap();
        }
    });
    let summary = writer.finish(RunEnd::DemandClosed).unwrap();
    let total = &summary.total;
    assert_eq!((total.finished, total.passed, total.faulted, total.open), (5, 1, 0, 3));
    assert_eq!((total.superseded_attempts, total.faulted_attempts, total.retries), (4, 1, 3));
    assert_eq!(summary.faults[0].slots, 0);

    let read = Run::open_read(&dir).unwrap();
    assert_eq!(read.summary(), summary);
    assert_eq!(RunStore::open(results.path()).unwrap().info(&run_id()).state, RunState::Finished);
    // Discarded attempts still exist, and close nothing, neither in the journal nor in the frames.
    let closing: Vec<_> = read
        .trajectories()
        .unwrap()
        .map(Result::unwrap)
        .filter(|record| record.closes_slot)
        .map(|record| record.attempt)
        .collect();
    assert_eq!(closing, [attempt(0, 0), attempt(1, 0), attempt(2, 1), attempt(3, 1), attempt(4, 1)]);
    let old = read.trajectory(attempt(3, 0)).unwrap();
    assert!(!old.closes_slot && old.trajectory.turns.len() == 1);
}

#[test]
fn figures_of_later_updates_are_forgotten() {
    let (results, dir) = interrupted();
    let updates = |dir: &Path| -> Vec<u64> {
        Run::open_read(dir).unwrap().updates().unwrap().iter().map(|update| update.update).collect()
    };
    assert_eq!(updates(&dir), [1, 2]);
    drop(back_to(results.path(), 1, &[0]));
    assert_eq!(updates(&dir), [1]);
    assert_eq!(Run::open_read(&dir).unwrap().metrics().unwrap().len(), 2, "others stay");
}

#[test]
fn going_back_twice_is_going_back_once() {
    let (results, _) = interrupted();
    let (writer, first) = back_to(results.path(), 1, &[0, 2]);
    drop(writer);
    let (writer, second) = back_to(results.path(), 1, &[0, 2]);
    assert_eq!(first.open_slots, [2, 3, 6, 7].map(SlotId));
    assert_eq!(second, first);
    drop(writer);
    let (_, everything) = back_to(results.path(), 2, &[0, 1, 2, 3]);
    assert_eq!(everything.open_slots, first.open_slots, "a slot is open until it is filled");
}

#[test]
fn removing_a_training_removes_its_checkpoints() {
    let (results, dir) = interrupted();
    let checkpoints = Run::open_read(&dir).unwrap().checkpoints_dir();
    assert!(checkpoints.join("00000001.safetensors").exists());
    RunStore::open(results.path()).unwrap().remove_run(&run_id()).unwrap();
    assert!(!dir.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However a training was interrupted, what is open after going back is every slot of the groups that were not
    /// consumed, and of the others those that were open.
    #[test]
    fn whole_groups_reopen(
        outcomes in proptest::collection::vec(0u8..4, 8),
        consumed in proptest::collection::btree_set(0u32..4, 0..4),
    ) {
        let results = tempfile::tempdir().unwrap();
        let plan = plan(8);
        let writer = RunWriter::create_training(results.path(), &plan, &fixture::lock(&plan), &train()).unwrap();
        let sink = writer.sink();
        block_on(async {
            for (slot, &outcome) in (0u32..).zip(&outcomes) {
                let lease = lease(slot, 0, u64::from(slot) + 1);
                match outcome {
                    0 => {}
                    1 => sink.leased(lease).await.unwrap(),
                    _ => {
                        sink.leased(lease).await.unwrap();
                        let ending = if outcome == 2 { fault() } else { finished(1.0) };
                        sink.resolved(record(lease, ending, true, 1)).await.unwrap();
                    }
                }
            }
        });
        drop(writer);
        let groups: Vec<u32> = consumed.iter().copied().collect();
        let (_, state) = back_to(results.path(), 0, &groups);
        let expected: Vec<SlotId> = (0u32..8)
            .filter(|slot| !consumed.contains(&(slot / 2)) || outcomes[*slot as usize] < 2)
            .map(SlotId)
            .collect();
        prop_assert_eq!(state.open_slots, expected);
    }
}
