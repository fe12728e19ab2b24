//! Transfers of trees between two machines.
//!
//! I1. A tree is sent by [`clawrl_sandbox::pack_tree`], which follows no link and keeps within limits.
//! I2. A trailer with the result follows the tree (a little-endian length of four bytes, and that much JSON): a tree
//! without one is invalid.
//! I3. A received tree is stored in files and folders of this process's user. The returned folder reports the original
//! metadata, so that readers see the original, and dropping the last clone can remove the files.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{Boundary, Fault};
use clawrl_sandbox::{
    CopyReport, Exclusions, SafeDir, TreeBounds, TreeError, TreeMetadata, UnpackError, pack_tree, unpack_tree,
};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::body::{PieceStream, pieces};
use crate::wire::{WireTreeError, reportable};

/// Maximum bytes of a trailer: it has the names of skipped entries.
const MAX_TRAILER: u64 = 256 << 20;

/// The report of the copy, or why it is incomplete.
type TreeTrailer = Result<CopyReport, WireTreeError>;

pub(crate) struct TreeStream {
    pub(crate) tree: Arc<SafeDir>,
    /// Path there of a file or a folder.
    pub(crate) from: PathBuf,
    pub(crate) exclude: Exclusions,
    pub(crate) bounds: TreeBounds,
    pub(crate) report: CopyReport,
    /// Held until it is sent, where concurrent transfers are limited.
    pub(crate) _turn: Option<OwnedSemaphorePermit>,
}

impl TreeStream {
    pub(crate) fn stream(self) -> PieceStream {
        let (mut writer, stream) = pieces();
        tokio::task::spawn_blocking(move || {
            let written = self.write(&mut writer);
            writer.finish(written);
        });
        stream
    }

    /// Writes it. Blocks.
    fn write(self, out: &mut impl Write) -> io::Result<()> {
        let packed = pack_tree(&self.tree, &self.from, &self.exclude, self.bounds, out);
        let end: TreeTrailer = packed.map(|()| reportable(self.report)).map_err(WireTreeError::from);
        let end = serde_json::to_vec(&end).map_err(io::Error::other)?;
        out.write_all(&u32::try_from(end.len()).map_err(io::Error::other)?.to_le_bytes())?;
        out.write_all(&end)
    }
}

/// A temporary folder for a transfer; removed when dropped.
pub(crate) struct SpooledDir(RemoveOnDrop);

/// Removes the folder when dropped, on a thread that may block.
struct RemoveOnDrop(Option<TempDir>);

impl RemoveOnDrop {
    fn path(&self) -> &Path {
        self.0.as_ref().map_or_else(|| Path::new("/nonexistent"), TempDir::path)
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let folder = self.0.take();
        // A tree of a million files takes a while, and the thread that drops the last clone may have other work.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(folder))),
            Err(_none) => drop(folder),
        }
    }
}

/// Name of the transferred file or folder there.
const NAME: &str = "t";

impl SpooledDir {
    /// Name of the copied entry there.
    pub(crate) const NAME: &str = NAME;

    /// An empty one, and its folder. Blocks.
    pub(crate) fn empty() -> io::Result<(Self, Arc<SafeDir>)> {
        let aside = Self(RemoveOnDrop(Some(tempfile::tempdir()?)));
        let folder = SafeDir::open(aside.0.path()).map_err(io::Error::other)?;
        Ok((aside, Arc::new(folder)))
    }

    /// Sends what was copied there. It stays until the last clone of the folder is dropped.
    pub(crate) fn tree_stream(self, bounds: TreeBounds, report: CopyReport) -> io::Result<TreeStream> {
        let tree = self.folder(Path::new("."), TreeMetadata::default())?;
        let (from, exclude) = (PathBuf::from(NAME), Exclusions::default());
        Ok(TreeStream { tree: Arc::new(tree), from, exclude, bounds, report, _turn: None })
    }

    fn folder(self, path: &Path, metadata: TreeMetadata) -> io::Result<SafeDir> {
        let path = self.0.path().join(path);
        SafeDir::open_with_metadata(path, metadata, Arc::new(self.0)).map_err(io::Error::other)
    }
}

pub(crate) struct ReceivedTree {
    aside: SpooledDir,
    metadata: TreeMetadata,
    pub(crate) report: CopyReport,
}

#[derive(Debug)]
pub(crate) enum ReceiveError {
    Storage(io::Error),
    /// The stream ended early, or is invalid.
    Stream(io::Error),
    /// It could not be read there, or not be written here.
    Tree(TreeError),
}

impl ReceiveError {
    /// The [`Fault`] for missing space on this machine.
    pub(crate) fn place(error: &io::Error) -> Fault {
        Fault::transient(Boundary::Env, "stage", format!("failed to create a folder for a transfer: {error}"))
    }
}

impl ReceivedTree {
    /// Reads the whole stream. Blocks.
    pub(crate) fn read(from: &mut impl Read) -> Result<Self, ReceiveError> {
        let (aside, folder) = SpooledDir::empty().map_err(ReceiveError::Storage)?;
        let metadata = match unpack_tree(from, &folder, NAME) {
            Ok(metadata) => Some(metadata),
            Err(UnpackError::GivenUp) => None,
            Err(UnpackError::Stream(error)) => return Err(ReceiveError::Stream(error)),
            Err(UnpackError::Write(error)) => return Err(ReceiveError::Tree(error.into())),
        };
        match (metadata, end(from).map_err(ReceiveError::Stream)?) {
            (_, Err(trouble)) => Err(ReceiveError::Tree(trouble.into())),
            (Some(metadata), Ok(report)) => Ok(Self { aside, metadata, report }),
            (None, Ok(_)) => {
                Err(ReceiveError::Stream(io::Error::other("the sender aborted a tree without a reason")))
            }
        }
    }

    /// The folder that contains it, and its name there.
    pub(crate) fn into_folder(self) -> io::Result<(SafeDir, &'static str)> {
        Ok((self.aside.folder(Path::new("."), self.metadata)?, NAME))
    }

    /// The tree, which must be a folder.
    pub(crate) fn into_tree(self) -> io::Result<SafeDir> {
        self.aside.folder(Path::new(NAME), self.metadata)
    }
}

/// I2. Also reads to the end of the stream: only the whole stream is the whole tree.
fn end(from: &mut impl Read) -> io::Result<TreeTrailer> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_TRAILER {
        return Err(io::Error::other("the trailer is too large"));
    }
    let mut end = Vec::new();
    from.take(length).read_to_end(&mut end)?;
    let end = serde_json::from_slice(&end).map_err(io::Error::other)?;
    io::copy(from, &mut io::sink())?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use clawrl_sandbox::{FileKind, TreeBound};

    use super::*;

    const BOUNDS: TreeBounds = TreeBounds { entries: 100, depth: 10, bytes: 1_000 };

    /// The serialised form of a folder, complete.
    fn sent(folder: &TempDir, from: &str, bounds: TreeBounds) -> Vec<u8> {
        let tree = Arc::new(SafeDir::open(folder.path()).unwrap());
        let (from, exclude) = (PathBuf::from(from), Exclusions::default());
        let report = CopyReport { files: 7, ..CopyReport::default() };
        let mut stream = Vec::new();
        TreeStream { tree, from, exclude, bounds, report, _turn: None }.write(&mut stream).unwrap();
        stream
    }

    #[test]
    fn tree_arrives_with_its_report() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("a/fifo"), rustix::fs::Mode::RUSR).unwrap();
        let arrived = ReceivedTree::read(&mut sent(&folder, ".", BOUNDS).as_slice()).unwrap();
        assert_eq!(arrived.report.files, 7);
        let tree = arrived.into_tree().unwrap();
        assert_eq!(tree.stat("a/fifo").unwrap().kind, FileKind::Fifo);
        let arrived = ReceivedTree::read(&mut sent(&folder, "a", BOUNDS).as_slice()).unwrap();
        let (tree, name) = arrived.into_folder().unwrap();
        assert_eq!(tree.stat(format!("{name}/fifo")).unwrap().kind, FileKind::Fifo);
    }

    #[test]
    fn aborted_tree_has_reason_truncated_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), [1; 500]).unwrap();
        let check = |bounds: TreeBounds, expected: TreeBound| {
            let lost = ReceivedTree::read(&mut sent(&folder, ".", bounds).as_slice()).err().unwrap();
            match lost {
                ReceiveError::Tree(TreeError::Bound { bound, .. }) => assert_eq!(bound, expected),
                other => panic!("{other:?}"),
            }
        };
        check(TreeBounds { bytes: 499, ..BOUNDS }, TreeBound::Bytes);
        check(TreeBounds { entries: 0, ..BOUNDS }, TreeBound::Entries);
        let whole = sent(&folder, ".", BOUNDS);
        for length in 0..whole.len() {
            assert!(
                matches!(ReceivedTree::read(&mut &whole[..length]), Err(ReceiveError::Stream(_))),
                "{length}"
            );
        }
    }
}
