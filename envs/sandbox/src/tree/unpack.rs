//! Reads a tree from a stream.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::chain::Chain;
use super::data_extents::PIECE;
use super::stream::{
    DATA, FILE, FOLDER, GIVEN_UP, LEAVE, LINK, MAX_NAME, Meta, OTHER, SIZE, WHOLE, array, read_bytes,
};
use crate::safe_dir::{FOLDER as OPEN_FOLDER, open_beneath, write_failed};
use crate::{SafeDir, SafeWriteError, TreeMetadata};

/// Why a tree was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The sender aborted.
    #[error("the sender aborted the tree")]
    GivenUp,
    /// The stream ended early, or is not a tree.
    #[error("failed to receive a tree: {0}")]
    Stream(#[source] io::Error),
    /// It could not be written here.
    #[error(transparent)]
    Write(#[from] SafeWriteError),
}

/// Unpacks the output of [`pack_tree`](super::pack_tree) as `name` in a folder that has no such entry. Reads nothing
/// beyond.
///
/// Files and folders belong to this process, which may read, change and remove them. The result holds the original
/// metadata, and FIFOs, sockets and devices, for [`SafeDir::open_with_metadata`]. Blocks.
///
/// # Errors
/// [`UnpackError`]; what was written must not be used then.
pub fn unpack_tree(from: &mut impl Read, folder: &SafeDir, name: &str) -> Result<TreeMetadata, UnpackError> {
    let here = folder.open_folder(Path::new(".")).map_err(SafeWriteError::from)?;
    let mut unpacking = Unpacking {
        chain: Chain::new(here),
        open: Vec::new(),
        path: PathBuf::new(),
        metadata: TreeMetadata::default(),
        buffer: Vec::new(),
    };
    // The outermost file or folder, which has no name.
    let mut outermost = Some(name.as_bytes().to_vec());
    loop {
        let [tag] = array(from).map_err(UnpackError::Stream)?;
        match tag {
            GIVEN_UP => return Err(UnpackError::GivenUp),
            WHOLE if outermost.is_none() && unpacking.open.is_empty() => return Ok(unpacking.metadata),
            LEAVE => unpacking.leave()?,
            FOLDER | FILE | LINK | OTHER if outermost.is_some() || !unpacking.open.is_empty() => {
                let meta = Meta::read(from).map_err(UnpackError::Stream)?;
                read_bytes(from, MAX_NAME, &mut unpacking.buffer).map_err(UnpackError::Stream)?;
                let name = outermost.take().unwrap_or_else(|| unpacking.buffer.clone());
                unpacking.entry(tag, meta, entry_name(name)?, from)?;
            }
            _ => return Err(nonsense()),
        }
    }
}

fn nonsense() -> UnpackError {
    UnpackError::Stream(io::Error::other("not a tree"))
}

/// A name that cannot lead elsewhere.
fn entry_name(bytes: Vec<u8>) -> Result<CString, UnpackError> {
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(nonsense());
    }
    CString::new(bytes).map_err(|_| nonsense())
}

struct Unpacking {
    chain: Chain,
    /// Metadata of the folders that are still open.
    open: Vec<Meta>,
    path: PathBuf,
    metadata: TreeMetadata,
    buffer: Vec<u8>,
}

impl Unpacking {
    fn written<T>(&self, done: Result<T, Errno>) -> Result<T, UnpackError> {
        done.map_err(|errno| write_failed(&self.path, errno.into()).into())
    }

    fn entry(&mut self, tag: u8, meta: Meta, name: CString, from: &mut impl Read) -> Result<(), UnpackError> {
        self.path.push(OsStr::from_bytes(name.to_bytes()));
        match tag {
            // A separate record leaves the folder.
            FOLDER => return self.folder(meta, name),
            FILE => self.file(meta, &name, from)?,
            LINK => {
                read_bytes(from, MAX_NAME, &mut self.buffer).map_err(UnpackError::Stream)?;
                self.link(meta, &name)?;
            }
            _ => {
                self.create(meta, &name)?;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn folder(&mut self, meta: Meta, name: CString) -> Result<(), UnpackError> {
        let made = self.chain.folder().and_then(|parent| {
            rustix::fs::mkdirat(parent, &name, Mode::RWXU)?;
            let folder = open_beneath(parent, name.as_c_str(), OPEN_FOLDER, Mode::empty())?;
            Ok((rustix::fs::fstat(&folder)?, folder))
        });
        let (stat, folder) = self.written(made)?;
        let metadata = self.metadata.tell(&stat, meta.rights);
        self.written(metadata)?;
        self.chain.push(&name, folder);
        self.open.push(meta);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), UnpackError> {
        let meta = self.open.pop().ok_or_else(nonsense)?;
        let dated = self.chain.folder().and_then(|folder| rustix::fs::futimens(folder, &meta.times()));
        self.written(dated)?;
        self.chain.pop();
        self.path.pop();
        Ok(())
    }

    /// Creates an empty file.
    fn create(&mut self, meta: Meta, name: &CString) -> Result<File, UnpackError> {
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let made = self.chain.folder().and_then(|folder| {
            let file = open_beneath(folder, name.as_c_str(), create, Mode::RUSR | Mode::WUSR)?;
            Ok((rustix::fs::fstat(&file)?, file))
        });
        let (stat, file) = self.written(made)?;
        let metadata = self.metadata.tell(&stat, meta.rights);
        self.written(metadata)?;
        Ok(File::from(file))
    }

    fn file(&mut self, meta: Meta, name: &CString, from: &mut impl Read) -> Result<(), UnpackError> {
        let file = self.create(meta, name)?;
        let failed = |path: &Path, source| UnpackError::from(write_failed(path, source));
        loop {
            let [tag] = array(from).map_err(UnpackError::Stream)?;
            let number = match tag {
                DATA | SIZE => u64::from_le_bytes(array(from).map_err(UnpackError::Stream)?),
                GIVEN_UP => return Err(UnpackError::GivenUp),
                _ => return Err(nonsense()),
            };
            if tag == SIZE {
                file.set_len(number).map_err(|source| failed(&self.path, source))?;
                break;
            }
            read_bytes(from, PIECE, &mut self.buffer).map_err(UnpackError::Stream)?;
            file.write_all_at(&self.buffer, number).map_err(|source| failed(&self.path, source))?;
        }
        self.written(rustix::fs::futimens(file.as_fd(), &meta.times()))
    }

    fn link(&mut self, meta: Meta, name: &CString) -> Result<(), UnpackError> {
        let target = CString::new(self.buffer.as_slice()).map_err(|_| nonsense())?;
        let made = self.chain.folder().and_then(|folder| {
            rustix::fs::symlinkat(&target, folder, name)?;
            rustix::fs::utimensat(folder, name, &meta.times(), AtFlags::SYMLINK_NOFOLLOW)?;
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        });
        let stat = self.written(made)?;
        let metadata = self.metadata.tell(&stat, meta.rights);
        self.written(metadata)?;
        Ok(())
    }
}
