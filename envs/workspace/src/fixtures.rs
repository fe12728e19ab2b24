//! Reads a task's fixtures as files for a sandbox.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, Fault, FixtureContent, FixtureFile, hex};
use clawrl_sandbox::PutFile;
use sha2::{Digest, Sha256};

/// Maximum bytes of host fixtures kept in memory, so that a thousand attempts read a file once.
const CACHE_BYTES: usize = 64 << 20;

/// Reads fixtures; host files are cached up to a limit.
#[derive(Debug, Default)]
pub struct FixtureReader {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    by_path: HashMap<(PathBuf, String), Arc<[u8]>>,
    bytes: usize,
}

impl FixtureReader {
    /// Reads the files of a task on a blocking thread.
    ///
    /// # Errors
    /// A permanent env [`Fault`] when a host file is gone or differs from the plan.
    pub async fn read(self: &Arc<Self>, files: Vec<FixtureFile>) -> Result<Vec<PutFile>, Fault> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let reader = Arc::clone(self);
        tokio::task::spawn_blocking(move || reader.read_here(&files))
            .await
            .map_err(|error| Fault::permanent(Boundary::Harness, "panic", error.to_string()))?
    }

    /// The same on this thread. Blocks on host files that are not cached.
    fn read_here(&self, files: &[FixtureFile]) -> Result<Vec<PutFile>, Fault> {
        files
            .iter()
            .map(|file| {
                let content = match &file.content {
                    FixtureContent::Inline(text) => text.as_bytes().into(),
                    FixtureContent::Host { path, sha256 } => self.host_file(path, sha256)?,
                };
                Ok(PutFile { path: file.path.clone(), mode: file.mode, content })
            })
            .collect()
    }

    fn host_file(&self, path: &PathBuf, sha256: &str) -> Result<Arc<[u8]>, Fault> {
        let key = (path.clone(), sha256.to_owned());
        if let Some(content) = self.lock().by_path.get(&key) {
            return Ok(Arc::clone(content));
        }
        let fault = |message: String| Fault::permanent(Boundary::Env, "fixture", message);
        let content =
            std::fs::read(path).map_err(|error| fault(format!("fixture {}: {error}", path.display())))?;
        let found = hex(&Sha256::digest(&content));
        if found != sha256 {
            let message = format!(
                "fixture {} has changed since the plan was made (sha256 {found}, planned {sha256}); make a new run",
                path.display()
            );
            return Err(fault(message));
        }
        let content: Arc<[u8]> = content.into();
        let mut cache = self.lock();
        if cache.bytes + content.len() <= CACHE_BYTES {
            cache.bytes += content.len();
            cache.by_path.insert(key, Arc::clone(&content));
        }
        Ok(content)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        // A panic between the two changes only makes the count too small.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_host_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "abc").unwrap();
        let file = |sha256: &str| FixtureFile {
            path: "f".to_owned(),
            mode: 0o644,
            content: FixtureContent::Host { path: path.clone(), sha256: sha256.to_owned() },
        };
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let reader = FixtureReader::default();
        assert_eq!(&*reader.read_here(&[file(right)]).unwrap()[0].content, b"abc");
        let fault = reader.read_here(&[file("00")]).unwrap_err();
        assert!(fault.message.contains("has changed since the plan was made"), "{fault}");
        std::fs::remove_file(&path).unwrap();
        assert!(reader.read_here(&[file(right)]).is_ok(), "in memory");
        assert!(FixtureReader::default().read_here(&[file(right)]).is_err());
    }
}
