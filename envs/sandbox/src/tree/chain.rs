//! The path from a folder down to the current one.
//!
//! One descriptor per level would let a deep tree use up all descriptors of the process, and a path per level has a
//! maximum length. So the names are kept, and descriptors of the last few levels only; when the walk returns to a level
//! without one, it is opened again from the base.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::safe_dir::{FOLDER, open_beneath};

/// Descriptors held besides the base. A tree that is walked to its end and back reopens once for this many levels.
const OPEN_LEVELS: usize = 16;

/// Maximum bytes of names that are passed to the kernel at once; its own limit is 4,096 with the final zero.
const CHUNK_BYTES: usize = 3_500;

#[derive(Debug)]
pub(super) struct Chain {
    base: OwnedFd,
    names: Vec<CString>,
    /// Descriptors of the deepest levels, the deepest last.
    open: VecDeque<OwnedFd>,
}

impl Chain {
    pub(super) fn new(base: OwnedFd) -> Self {
        Self { base, names: Vec::new(), open: VecDeque::new() }
    }

    /// The current folder, open for reading.
    pub(super) fn folder(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        if self.open.is_empty() {
            self.reopen()?;
        }
        Ok(self.open.back().unwrap_or(&self.base).as_fd())
    }

    pub(super) fn push(&mut self, name: &CStr, folder: OwnedFd) {
        if self.open.len() == OPEN_LEVELS {
            self.open.pop_front();
        }
        self.names.push(name.to_owned());
        self.open.push_back(folder);
    }

    pub(super) fn pop(&mut self) {
        self.names.pop();
        self.open.pop_back();
    }

    fn reopen(&mut self) -> Result<(), Errno> {
        let (far, near) = self.names.split_at(self.names.len().saturating_sub(OPEN_LEVELS));
        let mut at: Option<OwnedFd> = None;
        let mut chunk: Vec<u8> = Vec::new();
        for (index, name) in far.iter().enumerate() {
            if !chunk.is_empty() {
                chunk.push(b'/');
            }
            chunk.extend_from_slice(name.to_bytes());
            if chunk.len() >= CHUNK_BYTES || index + 1 == far.len() {
                let from = at.as_ref().unwrap_or(&self.base).as_fd();
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                at = Some(open_beneath(from, chunk.as_slice(), flags, Mode::empty())?);
                chunk.clear();
            }
        }
        for name in near {
            let from = self.open.back().or(at.as_ref()).unwrap_or(&self.base).as_fd();
            let folder = open_beneath(from, name.as_c_str(), FOLDER, Mode::empty())?;
            self.open.push_back(folder);
        }
        Ok(())
    }
}
