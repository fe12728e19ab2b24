//! Served content and its location.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::folder::{Folder, HostFile};
use super::reader::VerifiedContent;

#[derive(Debug, Clone)]
pub(super) enum Content {
    Memory(Bytes),
    Host(Arc<VerifiedContent<HostFile>>),
    /// A named file in a host folder.
    Folder(Arc<VerifiedContent<Folder>>, String),
}

#[derive(Debug)]
pub(super) enum Opened {
    Memory(Bytes),
    File(File, u64),
}

impl Content {
    /// Opens it. Blocks unless it is in memory.
    ///
    /// # Errors
    /// When it cannot be read, or differs from the plan: it is then marked as changed, for later attempts, too.
    pub(super) fn open(&self) -> io::Result<Opened> {
        let file = match self {
            Self::Memory(bytes) => return Ok(Opened::Memory(bytes.clone())),
            Self::Host(file) => file.open().inspect_err(|_| file.invalidate()),
            Self::Folder(folder, name) => folder.open(name).inspect_err(|_| folder.invalidate()),
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
