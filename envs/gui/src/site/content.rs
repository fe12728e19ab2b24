//! What is served, where it lies.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::folder::{Folder, HostFile};
use super::reader::VerifiedContent;

/// Bytes, or where they are.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// In the plan.
    Memory(Bytes),
    /// In a file of the host.
    Host(Arc<VerifiedContent<HostFile>>),
    /// In a file of this name, which the folder has.
    Folder(Arc<VerifiedContent<Folder>>, String),
}

/// Content that can be read.
#[derive(Debug)]
pub(super) enum Opened {
    /// Here it is.
    Memory(Bytes),
    /// A file of this length.
    File(File, u64),
}

impl Content {
    /// Opens it. Blocks, where it is not in memory.
    ///
    /// # Errors
    /// When it cannot be read, or is not what the plan has: then it is known to have changed, for later attempts, too.
    pub(super) fn open(&self) -> io::Result<Opened> {
        let file = match self {
            Self::Memory(bytes) => return Ok(Opened::Memory(bytes.clone())),
            Self::Host(file) => file.open().inspect_err(|_| file.doubt()),
            Self::Folder(folder, name) => folder.open(name).inspect_err(|_| folder.doubt()),
        }?;
        let length = file.metadata()?.len();
        Ok(Opened::File(file, length))
    }
}

impl Opened {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }
}
