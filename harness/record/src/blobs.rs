//! Blobs of a run: pictures, each in a file named by the hash of its bytes.
//!
//! B1. A file with its final name is complete and synced: it is written to a temporary name, synced and renamed, and then the folder is
//! synced. The name is returned only after that, so that neither `kill -9` nor a loss of power leaves a record that
//! refers to a missing file. Syncing at once needs no ordering between pictures and journal.
//! B2. Equal bytes are one file. An existing file is compared, and rewritten if it differs.
//! B3. Several tasks may store the same bytes at once: the last rename replaces a file by its equal. B4. Temporary files of a
//! process that died are removed by the next process that writes the run.
//!
//! Cancellation: a dropped future may leave a file that nothing refers to.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{BlobError, BlobRef, BlobStore, BoxFuture, MAX_BLOB_BYTES};

use crate::{RecordError, files};

/// Files that are being written. No hash begins with a dot.
const PART: &str = ".part-";

/// The pictures of one run; see the head of the module.
#[derive(Debug)]
pub struct RunBlobs {
    place: Arc<BlobFolder>,
}

#[derive(Debug)]
struct BlobFolder {
    /// The run's folder.
    run: PathBuf,
    /// Folders that exist and are synced. Locked while one is created, so that no file is written into a folder that a loss of
    /// power could remove.
    made: Mutex<HashSet<PathBuf>>,
    next: AtomicU64,
}

impl RunBlobs {
    /// Blobs of the run in this folder, which the caller owns.
    pub(crate) fn open(run: &Path) -> Result<Self, RecordError> {
        let dir = run.join(files::BLOBS);
        let failed = |source| RecordError::io("read", &dir, source);
        match fs::read_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            entries => {
                for entry in entries.map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    if entry.file_name().to_string_lossy().starts_with(PART) {
                        files::remove_optional(&entry.path())?;
                    }
                }
            }
        }
        let (made, next) = Default::default();
        Ok(Self { place: Arc::new(BlobFolder { run: run.to_owned(), made, next }) })
    }
}

impl BlobStore for RunBlobs {
    fn keep(&self, media_type: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<BlobRef, BlobError>> {
        let (place, media_type) = (Arc::clone(&self.place), media_type.to_owned());
        on_thread(move || {
            if bytes.len() > MAX_BLOB_BYTES {
                return Err(BlobError::TooLarge { bytes: bytes.len() });
            }
            let blob = BlobRef::of(&media_type, &bytes);
            place.keep(&blob, &bytes).map_err(|error| failed(&error))?;
            Ok(blob)
        })
    }

    fn read<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        let (place, blob) = (Arc::clone(&self.place), blob.clone());
        on_thread(move || match read(&place.run, &blob) {
            Ok(Some(bytes)) => Ok(bytes.into()),
            Ok(None) => Err(BlobError::Missing { sha256: blob.sha256 }),
            Err(error) => Err(failed(&error)),
        })
    }
}

fn failed(error: &RecordError) -> BlobError {
    BlobError::Failed { message: error.to_string() }
}

fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> BoxFuture<'static, Result<T, BlobError>> {
    Box::pin(async {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| {
            Err(BlobError::Failed { message: format!("no such blob is stored: {error}") })
        })
    })
}

impl BlobFolder {
    fn keep(&self, blob: &BlobRef, bytes: &[u8]) -> Result<(), RecordError> {
        let Some(path) = blob_path(blob) else { return Err(no_name(&self.run, blob)) };
        let path = self.run.join(path);
        let blobs = self.run.join(files::BLOBS);
        let dir = path.parent().unwrap_or(&blobs);
        if files::read_optional(&path)?.is_some_and(|there| there == bytes) {
            // The process that wrote it may have died before this sync.
            return files::sync_dir(dir);
        }
        self.make(&blobs)?;
        self.make(dir)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = blobs.join(format!("{PART}{}-{number}", std::process::id()));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        });
        if let Err(source) = written {
            // Nothing names it.
            let _ = fs::remove_file(&part);
            return Err(RecordError::io("write", path, source));
        }
        files::sync_dir(dir)
    }

    /// A folder and its name, on the disk. The folder above it is there: that of a run that was removed is not made again.
    fn make(&self, dir: &Path) -> Result<(), RecordError> {
        // Each change is one insert.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.contains(dir) {
            return Ok(());
        }
        match fs::create_dir(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(RecordError::io("create", dir, error));
            }
            _ => files::sync_dir(dir.parent().unwrap_or(dir))?,
        }
        made.insert(dir.to_owned());
        Ok(())
    }
}

/// Path inside a run's folder: `blobs/ab/abcdef….png`. `None` for an invalid hash.
#[must_use]
pub fn blob_path(blob: &BlobRef) -> Option<String> {
    let hash = &blob.sha256;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let ending = match blob.media_type.as_str() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => "bin",
    };
    is_hash.then(|| format!("{}/{}/{hash}.{ending}", files::BLOBS, &hash[..2]))
}

/// The bytes, if they are there.
pub(crate) fn read(run: &Path, blob: &BlobRef) -> Result<Option<Vec<u8>>, RecordError> {
    let Some(path) = blob_path(blob) else { return Err(no_name(run, blob)) };
    let path = run.join(path);
    let Some(bytes) = files::read_optional(&path)? else { return Ok(None) };
    if clawrl_core::sha256_hex(&bytes) == blob.sha256 {
        return Ok(Some(bytes));
    }
    let reason = "its content does not match its name".to_owned();
    Err(RecordError::Unreadable { path, reason })
}

fn no_name(run: &Path, blob: &BlobRef) -> RecordError {
    let reason = format!("`{}` is not a SHA-256", blob.sha256.escape_default());
    RecordError::Unreadable { path: run.join(files::BLOBS), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        let check = |media_type: &str, sha256: &str, expected: Option<&str>| {
            let blob = BlobRef { media_type: media_type.to_owned(), sha256: sha256.to_owned() };
            assert_eq!(blob_path(&blob).as_deref(), expected);
        };
        let hash = "ab".repeat(32);
        check("image/png", &hash, Some(&format!("blobs/ab/{hash}.png")));
        check("text/html", &hash, Some(&format!("blobs/ab/{hash}.bin")));
        check("image/png", &hash.to_uppercase(), None);
        check("image/png", &"../".repeat(22)[..64], None);
        check("image/png", "", None);
    }
}
