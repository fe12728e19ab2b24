//! Names of a run's files, and writing a whole one.
//!
//! I1. [`write_atomic`] leaves the old content or the new, also after a loss of power.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::RecordError;

/// Folder of all runs, inside the results folder.
pub(crate) const RUNS: &str = "runs";
pub(crate) const PLAN: &str = "plan.json";
pub(crate) const LOCK: &str = "lock.json";
pub(crate) const TRAIN: &str = "train.json";
/// Evaluations on held-out tasks, in the run of a training.
pub(crate) const HELD_OUT: &str = "held_out.json";
/// Folder of the learner, in the run of a training.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// Folder of blobs, named by hash.
pub(crate) const BLOBS: &str = "blobs";
pub(crate) const JOURNAL: &str = "journal.jsonl";
pub(crate) const TRAJECTORIES: &str = "trajectories.zst";
pub(crate) const METRICS: &str = "metrics.jsonl";
pub(crate) const JUDGEMENTS: &str = "judgements.jsonl";
pub(crate) const SUMMARY: &str = "summary.json";
pub(crate) const OWNER: &str = "owner.lock";

/// Replaces a file: temporary file beside it, `fsync`, rename, `fsync` of the folder.
pub(crate) fn write_atomic(path: &Path, content: &[u8]) -> Result<(), RecordError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if let Err(source) = written {
        // Nothing refers to it; leaving it behind would only puzzle a reader.
        let _ = fs::remove_file(&temporary);
        return Err(RecordError::io("write", path, source));
    }
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Opens a file of lines behind its last whole one, and makes it if it is not there.
pub(crate) fn open_lines(path: &Path) -> Result<File, RecordError> {
    let bytes = read_optional(path)?.unwrap_or_default();
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at as u64 + 1);
    let file = OpenOptions::new().append(true).create(true).open(path);
    let cut =
        |file: File| if (bytes.len() as u64) > whole { file.set_len(whole).map(|()| file) } else { Ok(file) };
    file.and_then(cut).map_err(|source| RecordError::io("write", path, source))
}

/// Removes a file that may not be there.
pub(crate) fn remove_optional(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RecordError::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), RecordError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| RecordError::io("write", dir, source))
}

/// Reads a regular file. Opening a FIFO would wait for ever.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    fs::read(path)
}

/// Reads a file; `None` if it is not there.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    match read_file(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::io("read", path, source)),
    }
}

/// Whether a path exists.
///
/// # Errors
/// If this cannot be determined: an inaccessible path is not the same as a missing one.
pub(crate) fn is_there(path: &Path) -> Result<bool, RecordError> {
    path.try_exists().map_err(|source| RecordError::io("read", path, source))
}

/// Whether a folder exists.
///
/// # Errors
/// As for [`is_there`].
pub(crate) fn is_folder(path: &Path) -> Result<bool, RecordError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(RecordError::io("read", path, source)),
    }
}

/// Reads a file that must be there.
pub(crate) fn read(path: PathBuf) -> Result<Vec<u8>, RecordError> {
    read_file(&path).map_err(|source| RecordError::io("read", path, source))
}
