//! The image ledger: images that ClawRL pulled or built, and when each was last used, in a file in the user's cache
//! folder.
//!
//! A container engine records neither.
//! I1. The file is read and replaced under a lock by all processes of this user; readers always see a complete file.
//! I2. A file that cannot be read is never overwritten, because it says what may be removed.
//!
//! Units: milliseconds since 1970; bytes. Blocks. Errors: [`LedgerError`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clawrl_core::{Boundary, Fault};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerImage {
    pub(crate) engine: String,
    /// The name under which it was pulled or built. It counts as ours while the engine knows the id by this name.
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) used: u64,
    /// Digests of its layers, lowest first.
    pub(crate) layers: Vec<String>,
    /// Sizes of the layers that have content, in the same order.
    pub(crate) sizes: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    images: Vec<LedgerImage>,
}

/// Why the ledger is not available.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file, or its folder, cannot be read or written.
    #[error("failed to access the image ledger {}: {source}; make its folder writable, or set \
        XDG_CACHE_HOME", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It has other content.
    #[error(
        "invalid image ledger {}: {why}; delete it, and remove its images yourself", path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self::permanent(Boundary::Provider, "image-ledger", error.to_string())
    }
}

/// The locked ledger; other processes wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    pub(crate) images: Vec<LedgerImage>,
    /// Dropping it releases the lock. Writing replaces the file itself, so a file beside it is locked.
    _lock: File,
}

impl Ledger {
    /// Waits for the current holder.
    pub(crate) fn hold(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source: io::Error| LedgerError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(path.with_extension("lock"));
        let lock = lock.map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let images = match fs::read(path) {
            Ok(bytes) => read(&bytes).map_err(|why| LedgerError::Malformed { path: path.to_owned(), why })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { path: path.to_owned(), images, _lock: lock })
    }

    /// Replaces the file with `images`.
    pub(crate) fn write(&self) -> Result<(), LedgerError> {
        let content = Content { format: FORMAT, images: self.images.clone() };
        let new = self.path.with_extension("new");
        let written = serde_json::to_vec(&content).map_err(io::Error::from).and_then(|bytes| {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            // After a power failure the file is either the old one or the new one.
            file.sync_data()?;
            fs::rename(&new, &self.path)
        });
        written.map_err(|source| LedgerError::Io { path: self.path.clone(), source })
    }

    /// Adds or updates an image.
    pub(crate) fn put(&mut self, image: LedgerImage) {
        self.images.retain(|one| (&one.engine, &one.name) != (&image.engine, &image.name));
        self.images.push(image);
    }

    /// Records a use. Unknown images are ignored.
    pub(crate) fn touch(&mut self, engine: &str, name: &str, used: u64) {
        let ours = self.images.iter_mut().find(|one| one.engine == engine && one.name == name);
        if let Some(image) = ours {
            image.used = image.used.max(used);
        }
    }
}

fn read(bytes: &[u8]) -> Result<Vec<LedgerImage>, String> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if content.format != FORMAT {
        return Err(format!("its format is {}, not {FORMAT}", content.format));
    }
    Ok(content.images)
}

/// The current time, in the ledger's unit.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, used: u64) -> LedgerImage {
        let (engine, id) = ("e".to_owned(), format!("sha256:{name}"));
        LedgerImage { engine, name: name.to_owned(), id, used, layers: Vec::new(), sizes: Vec::new() }
    }

    #[test]
    fn written_ledger_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/yet/there.json");
        let mut ledger = Ledger::hold(&path).unwrap();
        assert_eq!(ledger.images, []);
        ledger.put(image("a", 1));
        ledger.put(image("b", 2));
        ledger.put(image("a", 3));
        ledger.touch("e", "b", 5);
        ledger.touch("e", "b", 4);
        ledger.touch("e", "somebody's", 9);
        ledger.touch("another", "a", 9);
        ledger.write().unwrap();
        drop(ledger);
        assert_eq!(Ledger::hold(&path).unwrap().images, [image("b", 5), image("a", 3)]);
    }

    /// I1.
    #[test]
    fn two_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..25 {
                        let mut ledger = Ledger::hold(path).unwrap();
                        ledger.put(image(&format!("{thread}/{number}"), 0));
                        ledger.write().unwrap();
                    }
                });
            }
        });
        assert_eq!(Ledger::hold(&path).unwrap().images.len(), 100);
    }

    /// I2.
    #[test]
    fn i2_invalid_ledger_is_reported_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        let check = |text: &str, part: &str| {
            fs::write(&path, text).unwrap();
            let error = Ledger::hold(&path).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("delete it"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        };
        check("{}", "missing field");
        check("", "EOF");
        check(r#"{"format": 2, "images": []}"#, "format is 2");
        let error = Ledger::hold(Path::new("/proc/none/images.json")).unwrap_err();
        assert!(matches!(error, LedgerError::Io { .. }), "{error}");
    }
}
