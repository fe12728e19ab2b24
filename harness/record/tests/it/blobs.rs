//! Blobs: stored once, complete, and read back.

use std::fs;

use clawrl_core::{BlobError, BlobRef, BlobStore, EpisodeSink, MAX_BLOB_BYTES, RunId};
use clawrl_record::{RecordError, ResumeMode, Run, RunWriter, blob_path};

use crate::fixture::{block_on, lock, plan};

const NAME: &str = "pictures";

#[test]
fn equal_bytes_become_one_file_concurrently() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(NAME, 1);
    let writer = RunWriter::create(results.path(), &plan, &lock(&plan)).unwrap();
    let blobs = writer.sink().blobs();
    let bytes = b"as a picture".repeat(10_000);
    let kept =
        block_on(futures_util::future::join_all((0..16).map(|_| blobs.keep("image/png", bytes.clone()))));
    let name = BlobRef::of("image/png", &bytes);
    assert!(kept.iter().all(|kept| kept.as_ref() == Ok(&name)), "{kept:?}");
    assert_eq!(block_on(blobs.read(&name)).unwrap()[..], bytes);
    let path = writer.dir().join(blob_path(&name).unwrap());
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let beside: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    let large = block_on(blobs.keep("image/png", vec![0; MAX_BLOB_BYTES + 1]));
    assert_eq!(large, Err(BlobError::TooLarge { bytes: MAX_BLOB_BYTES + 1 }));
    let nothing = BlobRef::of("image/png", b"never kept");
    assert_eq!(block_on(blobs.read(&nothing)), Err(BlobError::Missing { sha256: nothing.sha256.clone() }));
    assert_eq!(Run::open_read(writer.dir()).unwrap().blob(&nothing).unwrap(), None);
}

#[test]
fn damaged_blob_is_reported_and_rewritten() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(NAME, 1);
    let writer = RunWriter::create(results.path(), &plan, &lock(&plan)).unwrap();
    let keep = |blobs: &dyn BlobStore| block_on(blobs.keep("image/png", b"whole".to_vec())).unwrap();
    let name = keep(&*writer.sink().blobs());
    let path = writer.dir().join(blob_path(&name).unwrap());
    let part = writer.dir().join("blobs").join(".part-1-7");
    fs::write(&path, b"who").unwrap();
    fs::write(&part, b"half").unwrap();
    writer.close().unwrap();

    let run = RunId::new(NAME).unwrap();
    let (writer, ..) = RunWriter::resume(results.path(), &run, ResumeMode::OpenSlots).unwrap();
    assert!(!part.exists());
    let read = Run::open_read(writer.dir()).unwrap();
    let damaged = read.blob(&name).unwrap_err();
    assert!(matches!(&damaged, RecordError::Unreadable { path: told, .. } if *told == path), "{damaged}");
    let blobs = writer.sink().blobs();
    assert!(matches!(block_on(blobs.read(&name)), Err(BlobError::Failed { .. })));
    assert_eq!(keep(&*blobs), name);
    assert_eq!(read.blob(&name).unwrap().as_deref(), Some(&b"whole"[..]));
}

#[test]
fn a_run_that_was_removed_does_not_come_back() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(NAME, 1);
    let writer = RunWriter::create(results.path(), &plan, &lock(&plan)).unwrap();
    fs::remove_dir_all(writer.dir()).unwrap();
    let kept = block_on(writer.sink().blobs().keep("image/png", b"late".to_vec()));
    assert!(matches!(kept, Err(BlobError::Failed { .. })), "{kept:?}");
    assert!(!writer.dir().exists());
}
