//! The hash of a tree.
//!
//! It is defined in the documentation of [`SafeDir::tree_hash`].

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clawrl_core::hex;
use rustix::fs::{Mode, OFlags, Stat};
use sha2::{Digest, Sha256};

use super::bounds::Budget;
use super::walk::{Entry, Visitor, walk};
use super::{TreeBounds, TreeError};
use crate::safe_dir::{Permission, failed, open_beneath, read_link};
use crate::{EntryStat, FileKind, SafeDir, SafeReadError};

impl SafeDir {
    /// The hash of the folder at `path` (`.` for all of it), in 64 lower-case hex digits. Blocks.
    ///
    /// It is the SHA-256 of a manifest: the line `clawrl-tree 1`, then one line for every entry below the
    /// folder (not for the folder itself), a folder before its content, the names of one folder in the
    /// order of their bytes. Every line ends with a newline and reads
    ///
    /// ```text
    /// KIND SPACE LENGTH ":" PATH [SPACE DETAIL]
    /// ```
    ///
    /// PATH is relative to the folder, its components joined by `/`; LENGTH is its number of bytes in
    /// decimal. Kinds and details:
    ///
    /// | kind | entry | detail |
    /// |---|---|---|
    /// | `d` | folder | none |
    /// | `f` | regular file without its owner's executable bit | SHA-256 of the content, 64 lower-case hex digits |
    /// | `x` | regular file with it | the same |
    /// | `l` | symbolic link | `LENGTH ":" TARGET`, the bytes of the target as stored |
    /// | `p` `s` `c` `b` | FIFO, socket, character device, block device | none |
    ///
    /// Names and targets are preceded by their lengths, so different trees have different manifests. The
    /// same definition as a program of 20 lines is `tests/it/tree_hash.py` of this crate.
    ///
    /// # Errors
    /// [`TreeError`]: there is no folder, something in it cannot be read, or it is beyond the bounds.
    pub fn tree_hash(&self, path: impl AsRef<Path>, bounds: TreeBounds) -> Result<String, TreeError> {
        let mut manifest = Manifest { sha256: Sha256::new(), line: Vec::new(), buffer: vec![0; 64 * 1024] };
        manifest.sha256.update(b"clawrl-tree 1\n");
        walk(self, path.as_ref(), bounds, &mut manifest)?;
        Ok(hex(&manifest.sha256.finalize()))
    }
}

struct Manifest {
    sha256: Sha256,
    line: Vec<u8>,
    buffer: Vec<u8>,
}

impl Manifest {
    fn add(&mut self, kind: char, path: &Path, detail: &[u8], budget: &mut Budget) -> Result<(), TreeError> {
        let bytes = path.as_os_str().as_bytes();
        self.line.clear();
        self.line.extend_from_slice(format!("{kind} {}:", bytes.len()).as_bytes());
        self.line.extend_from_slice(bytes);
        if !detail.is_empty() {
            self.line.push(b' ');
            self.line.extend_from_slice(detail);
        }
        self.line.push(b'\n');
        budget.bytes(self.line.len() as u64, path)?;
        self.sha256.update(&self.line);
        Ok(())
    }

    fn content(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<String, TreeError> {
        let fd = open_beneath(entry.folder, entry.name, OFlags::RDONLY, Mode::empty())
            .map_err(|errno| failed(entry.path, errno))?;
        let stat = EntryStat::from(&entry.tree.must_allow(entry.path, fd.as_fd(), Permission::Read)?);
        if stat.kind != FileKind::Regular {
            return Err(SafeReadError::NotRegular { path: entry.path.to_owned(), kind: stat.kind }.into());
        }
        budget.could_hold(stat.size, entry.path)?;
        let mut file = File::from(fd);
        let mut sha256 = Sha256::new();
        loop {
            let count = match file.read(&mut self.buffer) {
                Ok(0) => return Ok(hex(&sha256.finalize())),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(SafeReadError::Io { path: entry.path.to_owned(), source }.into());
                }
            };
            budget.bytes(count as u64, entry.path)?;
            sha256.update(&self.buffer[..count]);
        }
    }
}

impl Visitor for Manifest {
    fn enter(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        self.add('d', entry.path, b"", budget)
    }

    fn leaf(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        match entry.kind {
            FileKind::Regular => {
                let content = self.content(entry, budget)?;
                let executable = Mode::from_raw_mode(entry.stat.st_mode).contains(Mode::XUSR);
                self.add(if executable { 'x' } else { 'f' }, entry.path, content.as_bytes(), budget)
            }
            FileKind::Symlink => {
                let target = read_link(entry.folder, entry.name, entry.path)?;
                let mut detail = format!("{}:", target.as_bytes().len()).into_bytes();
                detail.extend_from_slice(target.as_bytes());
                self.add('l', entry.path, &detail, budget)
            }
            special => self.add(special.letter(), entry.path, b"", budget),
        }
    }

    fn leave(&mut self, _: &Stat, _: &Path) -> Result<(), TreeError> {
        Ok(())
    }

    fn unreadable(&mut self, _: &Path, error: SafeReadError) -> Result<(), TreeError> {
        Err(error.into())
    }
}
