//! Trees on their way between two machines.
//!
//! I1. A tree is sent by [`clawrl_sandbox::pack_tree`], which follows no link and keeps within bounds. I2. After the tree
//! comes what became of it (a length of four bytes, the lowest first, and so much JSON): a tree without is none. I3. What
//! arrives lies in files and folders that are this process's, whoever it is; what else they were is told by the folder that
//! is handed on, so that who looks at them sees what is there, and the last clone dropped can remove them.

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

/// Most bytes of what is said after a tree: the names of what it lacks are in it.
const MAX_TRAILER: u64 = 256 << 20;

/// What is said after a tree: what whoever brought it this far copied, or why that is not all.
type TreeTrailer = Result<CopyReport, WireTreeError>;

/// What is sent of a tree.
pub(crate) struct TreeStream {
    pub(crate) tree: Arc<SafeDir>,
    /// The path there of a file or a folder.
    pub(crate) from: PathBuf,
    pub(crate) exclude: Exclusions,
    pub(crate) bounds: TreeBounds,
    /// Of the copy that it is, if it is one.
    pub(crate) report: CopyReport,
    /// Held until it is sent, where few are sent at once.
    pub(crate) _turn: Option<OwnedSemaphorePermit>,
}

impl TreeStream {
    /// The stream of it.
    pub(crate) fn stream(self) -> PieceStream {
        let (mut writer, stream) = pieces();
        tokio::task::spawn_blocking(move || {
            let written = self.write(&mut writer);
            writer.finish(written);
        });
        stream
    }

    /// Blocks.
    fn write(self, out: &mut impl Write) -> io::Result<()> {
        let packed = pack_tree(&self.tree, &self.from, &self.exclude, self.bounds, out);
        let end: TreeTrailer = packed.map(|()| reportable(self.report)).map_err(WireTreeError::from);
        let end = serde_json::to_vec(&end).map_err(io::Error::other)?;
        out.write_all(&u32::try_from(end.len()).map_err(io::Error::other)?.to_le_bytes())?;
        out.write_all(&end)
    }
}

/// A folder for something on its way; removed when it is dropped.
pub(crate) struct SpooledDir(RemoveOnDrop);

/// Removes the folder when it is dropped, where that may block.
struct RemoveOnDrop(Option<TempDir>);

impl RemoveOnDrop {
    fn path(&self) -> &Path {
        self.0.as_ref().map_or_else(|| Path::new("/nonexistent"), TempDir::path)
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let folder = self.0.take();
        // A tree of a million files takes a while, and whoever drops the last clone may have others to serve.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(folder))),
            Err(_none) => drop(folder),
        }
    }
}

/// The name there of what is on its way, be it a file or a folder.
const NAME: &str = "t";

impl SpooledDir {
    /// The name of what is copied there.
    pub(crate) const NAME: &str = NAME;

    /// With nothing in it yet, and its folder. Blocks.
    pub(crate) fn empty() -> io::Result<(Self, Arc<SafeDir>)> {
        let aside = Self(RemoveOnDrop(Some(tempfile::tempdir()?)));
        let folder = SafeDir::open(aside.0.path()).map_err(io::Error::other)?;
        Ok((aside, Arc::new(folder)))
    }

    /// What was copied there. It stays until the last clone of the folder is dropped.
    pub(crate) fn tree_stream(self, bounds: TreeBounds, report: CopyReport) -> io::Result<TreeStream> {
        let tree = self.folder(Path::new("."), TreeMetadata::default())?;
        let (from, exclude) = (PathBuf::from(NAME), Exclusions::default());
        Ok(TreeStream { tree: Arc::new(tree), from, exclude, bounds, report, _turn: None })
    }

    fn folder(self, path: &Path, told: TreeMetadata) -> io::Result<SafeDir> {
        let path = self.0.path().join(path);
        SafeDir::open_with_metadata(path, told, Arc::new(self.0)).map_err(io::Error::other)
    }
}

/// A tree that came.
pub(crate) struct ReceivedTree {
    aside: SpooledDir,
    told: TreeMetadata,
    /// What whoever sent it says of it.
    pub(crate) report: CopyReport,
}

/// Why none came.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    /// There is no place for it here.
    ExposedFolder(io::Error),
    /// It did not come to its end, or is none.
    Stream(io::Error),
    /// It could not be read there, or not be written here.
    Tree(TreeError),
}

impl ReceiveError {
    /// A [`Fault`] of the machine that lacks a place.
    pub(crate) fn place(error: &io::Error) -> Fault {
        Fault::transient(Boundary::Env, "stage", format!("a folder for a tree on its way: {error}"))
    }
}

impl ReceivedTree {
    /// Reads the whole stream. Blocks.
    pub(crate) fn read(from: &mut impl Read) -> Result<Self, ReceiveError> {
        let (aside, folder) = SpooledDir::empty().map_err(ReceiveError::ExposedFolder)?;
        let told = match unpack_tree(from, &folder, NAME) {
            Ok(told) => Some(told),
            Err(UnpackError::GivenUp) => None,
            Err(UnpackError::Stream(error)) => return Err(ReceiveError::Stream(error)),
            Err(UnpackError::Write(error)) => return Err(ReceiveError::Tree(error.into())),
        };
        match (told, end(from).map_err(ReceiveError::Stream)?) {
            (_, Err(trouble)) => Err(ReceiveError::Tree(trouble.into())),
            (Some(told), Ok(report)) => Ok(Self { aside, told, report }),
            (None, Ok(_)) => {
                Err(ReceiveError::Stream(io::Error::other("a tree was given up, and nobody says why")))
            }
        }
    }

    /// The folder that it is in, and its name there.
    pub(crate) fn into_folder(self) -> io::Result<(SafeDir, &'static str)> {
        Ok((self.aside.folder(Path::new("."), self.told)?, NAME))
    }

    /// The tree, which is a folder.
    pub(crate) fn into_tree(self) -> io::Result<SafeDir> {
        self.aside.folder(Path::new(NAME), self.told)
    }
}

/// I2. What the stream ends with is read, too: only the whole stream is the whole tree.
fn end(from: &mut impl Read) -> io::Result<TreeTrailer> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_TRAILER {
        return Err(io::Error::other("more than is said after a tree"));
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

    /// What is sent of a folder, whole.
    fn sent(folder: &TempDir, from: &str, bounds: TreeBounds) -> Vec<u8> {
        let tree = Arc::new(SafeDir::open(folder.path()).unwrap());
        let (from, exclude) = (PathBuf::from(from), Exclusions::default());
        let report = CopyReport { files: 7, ..CopyReport::default() };
        let mut stream = Vec::new();
        TreeStream { tree, from, exclude, bounds, report, _turn: None }.write(&mut stream).unwrap();
        stream
    }

    #[test]
    fn a_parcel_arrives_with_what_is_said_of_it() {
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
    fn what_was_given_up_says_why_and_what_broke_off_is_lost() {
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
