//! Listing and reading runs, also while they are under way.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use clawrl_core::{EpisodeSink, RunId};
use clawrl_record::{Metric, MetricRow, RecordError, Run, RunEnd, RunState, RunStore, RunWriter};

use crate::fixture::{self, attempt, block_on, finished, lease, record};

/// Content and time of change of every file.
fn files(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name().into_string().unwrap(), (fs::read(entry.path()).unwrap(), changed))
        })
        .collect()
}

#[test]
fn readers_work_beside_the_writer() {
    let results = tempfile::tempdir().unwrap();
    let plan = fixture::plan("a", 3);
    let writer = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap();
    let sink = writer.sink();
    let first = record(lease(0, 0, 1), finished(1.0), true, 20);
    block_on(async {
        sink.leased(lease(0, 0, 1)).await.unwrap();
        sink.resolved(first.clone()).await.unwrap();
        sink.leased(lease(1, 0, 2)).await.unwrap();
        let row = MetricRow::new(5, Metric::SandboxesLiveCount, 2.0);
        sink.metrics(vec![row, row]).await.unwrap();
    });

    let read = Run::open_read(writer.dir()).unwrap();
    assert!(read.is_running());
    assert_eq!(read.trajectory(attempt(0, 0)).unwrap(), first);
    assert_eq!(read.metrics().unwrap().len(), 2);
    assert_eq!(read.plan(), &plan);
    assert_eq!(read.lock_file().unwrap(), fixture::lock(&plan));
    let summary = read.summary();
    assert_eq!((summary.total.closed, summary.total.open, summary.end), (1, 2, None));

    block_on(sink.resolved(record(lease(1, 0, 2), finished(0.0), true, 1))).unwrap();
    let dir = writer.dir().to_owned();
    writer.finish(RunEnd::Interrupted).unwrap();
    let before = files(&dir);
    let names: Vec<&str> = before.keys().map(String::as_str).collect();
    let expected = [
        "journal.jsonl",
        "lock.json",
        "metrics.jsonl",
        "owner.lock",
        "plan.json",
        "summary.json",
        "trajectories.zst",
    ];
    assert_eq!(names, expected);
    let read = Run::open_read(&dir).unwrap();
    assert_eq!(read.trajectories().unwrap().map(Result::unwrap).count(), 2);
    RunStore::open(results.path()).unwrap().list().unwrap();
    assert_eq!(files(&dir), before);
}

#[test]
fn listing() {
    let results = tempfile::tempdir().unwrap();
    let store = RunStore::open(results.path()).unwrap();
    assert_eq!(store.list().unwrap(), []);
    let make = |name: &str| {
        let plan = fixture::plan(name, 1);
        RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap()
    };
    let done = make("done");
    block_on(async {
        done.sink().leased(lease(0, 0, 1)).await.unwrap();
        done.sink().resolved(record(lease(0, 0, 1), finished(1.0), true, 1)).await.unwrap();
    });
    done.finish(RunEnd::Completed).unwrap();
    make("stopped").finish(RunEnd::Interrupted).unwrap();
    drop(make("dropped"));
    let live = make("live");
    fs::create_dir(results.path().join("runs/empty")).unwrap();
    fs::create_dir(results.path().join("runs/.hidden")).unwrap();

    let by_name: BTreeMap<String, RunState> =
        store.list().unwrap().into_iter().map(|info| (info.run.to_string(), info.state)).collect();
    let expected = [
        ("done", RunState::Finished),
        ("dropped", RunState::Interrupted),
        ("empty", RunState::Damaged),
        ("live", RunState::Running),
        ("stopped", RunState::Interrupted),
    ];
    assert_eq!(by_name, expected.map(|(name, state)| (name.to_owned(), state)).into());
    let listed = store.list().unwrap();
    assert_eq!(listed.last().unwrap().state, RunState::Damaged, "what cannot be read comes last");
    let info = store.info(&RunId::new("done").unwrap());
    assert_eq!((info.slots, info.closed, info.faulted, info.passed), (1, 1, 0, 1));
    assert_eq!(info.suites, ["terminal-basics", "more"]);

    let plan = fixture::plan("live", 1);
    let error = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap_err();
    assert!(matches!(error, RecordError::Running { .. } | RecordError::Exists { .. }), "{error}");
    drop(live);
    let error = RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).unwrap_err();
    assert!(matches!(error, RecordError::Exists { .. }), "{error}");
    // The folder of a process that died before it wrote a plan may be used.
    make("empty").close().unwrap();
}
