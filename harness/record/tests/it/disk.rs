//! Disks that are full and folders that cannot be written.

use std::path::Path;

use clawrl_core::RunId;
use clawrl_record::{RecordError, ResumeMode, RunState, RunStore, RunWriter};

use crate::{child, fixture};

const SLOTS: u32 = 600;

/// Output of a child that cannot write files larger than this many blocks of 512 bytes.
fn starved(results: &Path, blocks: u32) -> Vec<String> {
    // An ignored signal stays ignored in the child, whose write then fails with EFBIG.
    let script = format!(r#"trap "" XFSZ; ulimit -f {blocks}; exec "$@""#);
    let (mut process, output) = child::start(results, SLOTS, Some(&script));
    let said = child::sayings(output).collect();
    process.wait().unwrap();
    said
}

/// A limit on the size of files stands for the full disk: it fails the same `write`, needs no rights, and
/// hits in the middle of a line.
#[test]
fn a_full_disk_loses_nothing_acknowledged() {
    let results = tempfile::tempdir().unwrap();
    // Not even the plan fits. The remaining folder may be used again.
    let said = starved(results.path(), 8);
    assert!(
        said[0].starts_with("failed no space left to write ") && said[0].contains("plan.json ("),
        "{said:?}"
    );

    let said = starved(results.path(), 200);
    let (last, acknowledged) = said.split_last().unwrap();
    assert!(last.starts_with("failed no space left to write "), "{last}");
    assert!(last.ends_with("no recorded result is lost"), "{last}");

    let run = RunId::new(child::RUN).unwrap();
    let store = RunStore::open(results.path()).unwrap();
    let info = store.info(&run);
    assert_eq!((info.state, info.problem), (RunState::Interrupted, None), "the journal ends in a whole line");
    let read = store.run(&run).unwrap();
    let resolved = acknowledged.iter().filter(|said| said.starts_with("resolved")).count();
    assert!(resolved > 0);
    assert_eq!(read.attempts().count(), resolved);
    assert_eq!(read.trajectories().unwrap().filter(Result::is_ok).count(), resolved);

    let (mut process, output) = child::start(results.path(), SLOTS, None);
    assert_eq!(child::sayings(output).last().as_deref(), Some("ended"));
    process.wait().unwrap();
    assert_eq!(store.info(&run).state, RunState::Finished);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let plan = fixture::plan("a", 1);
    // Not even root can create folders in sysfs.
    let error = RunWriter::create(Path::new("/sys"), &plan, &fixture::lock(&plan)).unwrap_err();
    assert!(matches!(error, RecordError::NotWritable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("failed to write /sys/runs ("), "{text}");
    assert!(text.ends_with("make the results folder writable, or choose another with --results"), "{text}");
}

#[test]
fn a_file_in_place_of_the_folder_is_named() {
    let results = tempfile::tempdir().unwrap();
    std::fs::write(results.path().join("runs"), "").unwrap();
    let plan = fixture::plan("a", 1);
    assert!(RunWriter::create(results.path(), &plan, &fixture::lock(&plan)).is_err());
    assert!(RunWriter::resume(results.path(), &plan.run, ResumeMode::OpenSlots).is_err());
    assert!(RunStore::open(results.path()).is_err());
}
