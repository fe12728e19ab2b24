//! Content-addressed bytes that a record stores once beside its texts: screenshots.
//!
//! Units: `_bytes` are bytes.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, sha256_hex};

/// Most bytes of one blob. A picture of a window is smaller, and a server that reads it wants no more.
pub const MAX_BLOB_BYTES: usize = 8 << 20;

/// Reference to stored bytes, for places that hold text only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlobRef {
    /// For example `image/png`.
    pub media_type: String,
    /// Hex SHA-256 of the bytes.
    pub sha256: String,
}

impl BlobRef {
    /// The reference of these bytes.
    #[must_use]
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self { media_type: media_type.to_owned(), sha256: sha256_hex(bytes) }
    }
}

/// Why bytes are not kept, or not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// More than [`MAX_BLOB_BYTES`].
    #[error("it has {bytes} bytes, and the limit is {MAX_BLOB_BYTES}")]
    TooLarge {
        /// Size of the rejected bytes.
        bytes: usize,
    },
    /// No blob is stored under this hash, or it was removed.
    #[error("no blob with the hash {sha256}")]
    Missing {
        /// Hex SHA-256.
        sha256: String,
    },
    /// The place where they are kept refuses, or holds something else under this name.
    #[error("{message}")]
    Failed {
        /// The cause and the remedy.
        message: String,
    },
}

/// Stores bytes for the record of a run.
///
/// Environments store bytes, policies read them. When the future of `keep` is ready, readers of the record find the bytes, even
/// after `kill -9` of this process; only then may anything refer to them. Equal bytes are stored once, whichever call came
/// first. Both functions may be called concurrently, and their futures may be dropped; then nothing refers to the bytes.
pub trait BlobStore: Send + Sync + Debug {
    /// Keeps bytes.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`], [`BlobError::Failed`].
    fn keep(&self, media_type: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<BlobRef, BlobError>>;

    /// Reads stored bytes.
    ///
    /// # Errors
    /// [`BlobError::Missing`], [`BlobError::Failed`].
    fn read<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>>;
}

/// Stores bytes in memory for runs without a record. Beyond its capacity it drops the oldest.
#[derive(Debug)]
pub struct MemoryBlobs {
    most_bytes: usize,
    kept: Mutex<Stored>,
}

#[derive(Default)]
struct Stored {
    blobs: HashMap<String, Arc<[u8]>>,
    /// Their names, the oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl Debug for Stored {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} blobs of {} bytes", self.blobs.len(), self.bytes)
    }
}

impl MemoryBlobs {
    /// Limits the stored bytes.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Stored> {
        // After a panic at worst a name without bytes is left, which reads as missing.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Capacity for the screenshots of a few attempts.
impl Default for MemoryBlobs {
    fn default() -> Self {
        Self::new(8 * MAX_BLOB_BYTES)
    }
}

impl BlobStore for MemoryBlobs {
    fn keep(&self, media_type: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<BlobRef, BlobError>> {
        let result = if bytes.len() > MAX_BLOB_BYTES {
            Err(BlobError::TooLarge { bytes: bytes.len() })
        } else {
            let blob = BlobRef::of(media_type, &bytes);
            let mut kept = self.kept();
            if !kept.blobs.contains_key(&blob.sha256) {
                kept.bytes += bytes.len();
                kept.order.push_back(blob.sha256.clone());
                kept.blobs.insert(blob.sha256.clone(), bytes.into());
            }
            while kept.bytes > self.most_bytes {
                let Some(oldest) = kept.order.pop_front() else { break };
                kept.bytes -= kept.blobs.remove(&oldest).map_or(0, |bytes| bytes.len());
            }
            Ok(blob)
        };
        Box::pin(std::future::ready(result))
    }

    fn read<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        let found = self.kept().blobs.get(&blob.sha256).cloned();
        let missing = || BlobError::Missing { sha256: blob.sha256.clone() };
        Box::pin(std::future::ready(found.ok_or_else(missing)))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Nothing here waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn names_are_hashes() {
        let abc = BlobRef::of("image/png", b"abc");
        assert_eq!(abc.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn memory_keeps_once_and_forgets_the_oldest() {
        let store = MemoryBlobs::new(10);
        let keep = |bytes: &[u8]| now(store.keep("image/png", bytes.to_vec())).unwrap();
        let (four, again, six) = (keep(b"four"), keep(b"four"), keep(b"sixsix"));
        assert_eq!(four, again);
        assert_eq!(&*now(store.read(&four)).unwrap(), b"four");
        let one = keep(b"1");
        assert_eq!(now(store.read(&four)), Err(BlobError::Missing { sha256: four.sha256.clone() }));
        assert_eq!(&*now(store.read(&six)).unwrap(), b"sixsix");
        assert_eq!(&*now(store.read(&one)).unwrap(), b"1");
        let large = now(store.keep("image/png", vec![0; MAX_BLOB_BYTES + 1]));
        assert_eq!(large, Err(BlobError::TooLarge { bytes: MAX_BLOB_BYTES + 1 }));
    }
}
