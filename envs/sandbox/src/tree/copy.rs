//! Copies a tree, for command checks in a fresh sandbox.
//!
//! Kept: names, contents (holes stay holes), link targets, permission bits without setuid, setgid and sticky,
//! modification times. Hard links become separate files. Skipped and listed: FIFOs, sockets, devices, and entries that
//! their owner or this process may not read.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::bounds::Budget;
use super::chain::Chain;
use super::data_extents::{PIECE, for_each_extent};
use super::remove::{open_up, remove};
use super::skipped_entries::{SkipReason, SkippedEntries};
use super::walk::{Entry, Visitor, walk};
use super::{Exclusions, SizeLimit, TreeBounds, TreeError};
use crate::safe_dir::{ActingAs, FOLDER, Permission, failed, open_beneath, read_link, write_failed};
use crate::{EntryStat, FileKind, Owner, SafeDir, SafeReadError};

/// How a tree is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Limits on the source.
    pub bounds: TreeBounds,
    /// Owner of the copy, if this process is root. `None`, or the process's own ids: the process.
    pub owner: Option<Owner>,
    /// How existing names at the destination are treated.
    pub existing: Existing,
    /// How a full destination file system is attributed.
    pub size_limit: SizeLimit,
}

/// How existing names at a destination are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// The copy fails.
    #[default]
    Refused,
    /// Folders are merged; any other entry is removed first, and so is a folder that a file replaces.
    Replaced,
}

/// What a copy contains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// Regular files.
    pub files: u64,
    /// Folders, without the outermost.
    pub folders: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes of content that were written.
    pub bytes: u64,
    /// Entries that the copy lacks.
    pub skipped: SkippedEntries,
}

/// Copies the content of one folder into another.
///
/// Owner and mode of the outermost folder stay unchanged. Blocks.
///
/// # Errors
/// [`TreeError`]; the copy is then incomplete and must not be used.
pub fn copy_tree(
    source: &SafeDir,
    destination: &SafeDir,
    options: CopyOptions,
) -> Result<CopyReport, TreeError> {
    copy_folder(source, Path::new("."), destination, &Exclusions::default(), options)
}

/// As [`copy_tree`], for a folder in the source, with exclusions.
pub(super) fn copy_folder(
    source: &SafeDir,
    from: &Path,
    destination: &SafeDir,
    exclude: &Exclusions,
    options: CopyOptions,
) -> Result<CopyReport, TreeError> {
    let mut copy = Copy {
        chain: Chain::new(destination.open_folder(Path::new("."))?),
        owner: options.owner,
        existing: options.existing,
        exclude,
        buffer: vec![0; PIECE],
        report: CopyReport::default(),
    };
    walk(source, from, options.bounds, &mut copy).map_err(|error| options.size_limit.classify(error))?;
    Ok(copy.report)
}

struct Copy<'a> {
    /// Follows the walk through the destination.
    chain: Chain,
    owner: Option<Owner>,
    existing: Existing,
    exclude: &'a Exclusions,
    buffer: Vec<u8>,
    report: CopyReport,
}

impl Copy<'_> {
    fn acting(&self, path: &Path) -> Result<ActingAs, TreeError> {
        ActingAs::owner(self.owner).map_err(|source| write_failed(path, source).into())
    }

    /// Removes an existing entry of this name, if replacing is allowed. Returns whether it is a folder that may stay.
    fn make_room(&mut self, entry: &Entry<'_>, for_folder: bool) -> Result<bool, TreeError> {
        if self.existing == Existing::Refused {
            return Ok(false);
        }
        let failed = |errno: Errno| TreeError::from(write_failed(entry.path, errno.into()));
        let folder = self.chain.folder().map_err(failed)?;
        match rustix::fs::statat(folder, entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if for_folder && EntryStat::from(&found).kind == FileKind::Folder => return Ok(true),
            Ok(_) => remove(folder, entry.name, entry.path)?,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        Ok(false)
    }

    fn file(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        let path = entry.path;
        let source = match open_beneath(entry.folder, entry.name, OFlags::RDONLY, Mode::empty()) {
            Ok(source) => source,
            Err(errno) => match failed(path, errno) {
                error @ SafeReadError::Unreadable { .. } => return self.unreadable(path, error),
                error => return Err(error.into()),
            },
        };
        let stat = match entry.tree.must_allow(path, source.as_fd(), Permission::Read) {
            Err(error @ SafeReadError::Unreadable { .. }) => return self.unreadable(path, error),
            stat => stat?,
        };
        let EntryStat { kind, size, .. } = EntryStat::from(&stat);
        if kind != FileKind::Regular {
            return Err(SafeReadError::NotRegular { path: path.to_owned(), kind }.into());
        }
        self.make_room(entry, false)?;
        let destination = {
            let _acting = self.acting(path)?;
            let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            self.chain
                .folder()
                .and_then(|folder| open_beneath(folder, entry.name, create, Mode::RUSR | Mode::WUSR))
                .map_err(|errno| write_failed(path, errno.into()))?
        };
        let (mut source, destination) = (File::from(source), File::from(destination));
        self.report.bytes += data(&mut source, &destination, size, path, budget, &mut self.buffer)?;
        let _acting = self.acting(path)?;
        finish(destination.as_fd(), &stat).map_err(|errno| write_failed(path, errno.into()))?;
        self.report.files += 1;
        Ok(())
    }

    fn symlink(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        let path = entry.path;
        let target = read_link(entry.folder, entry.name, entry.path)?;
        budget.bytes(target.as_bytes().len() as u64, path)?;
        self.make_room(entry, false)?;
        let _acting = self.acting(path)?;
        self.chain
            .folder()
            .and_then(|folder| {
                rustix::fs::symlinkat(&target, folder, entry.name)?;
                rustix::fs::utimensat(folder, entry.name, &times(entry.stat), AtFlags::SYMLINK_NOFOLLOW)
            })
            .map_err(|errno| write_failed(path, errno.into()))?;
        self.report.symlinks += 1;
        Ok(())
    }
}

impl Visitor for Copy<'_> {
    fn passes_over(&self, path: &[u8]) -> bool {
        self.exclude.cover(path)
    }

    fn enter(&mut self, entry: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        let is_there = self.make_room(entry, true)?;
        let _acting = self.acting(entry.path)?;
        let create = |chain: &mut Chain| -> Result<OwnedFd, Errno> {
            let folder = chain.folder()?;
            // Its own mode is set when the walk leaves it: the mode may forbid writing into it.
            if !is_there {
                rustix::fs::mkdirat(folder, entry.name, Mode::RWXU)?;
            }
            open_beneath(folder, entry.name, FOLDER, Mode::empty())
        };
        let folder = create(&mut self.chain).map_err(|errno| write_failed(entry.path, errno.into()))?;
        if is_there {
            open_up(folder.as_fd());
        }
        self.chain.push(entry.name, folder);
        self.report.folders += 1;
        Ok(())
    }

    fn leaf(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        match entry.kind {
            FileKind::Regular => self.file(entry, budget),
            FileKind::Symlink => self.symlink(entry, budget),
            special => {
                self.report.skipped.add(entry.path, SkipReason::Special(special));
                Ok(())
            }
        }
    }

    fn leave(&mut self, stat: &Stat, path: &Path) -> Result<(), TreeError> {
        let _acting = self.acting(path)?;
        self.chain
            .folder()
            .and_then(|folder| finish(folder, stat))
            .map_err(|errno| write_failed(path, errno.into()))?;
        self.chain.pop();
        Ok(())
    }

    fn unreadable(&mut self, path: &Path, _: SafeReadError) -> Result<(), TreeError> {
        self.report.skipped.add(path, SkipReason::Unreadable);
        Ok(())
    }
}

/// Copies `[0, size)` and returns how many bytes of it are not holes.
pub(super) fn data(
    source: &mut File,
    destination: &File,
    size: u64,
    path: &Path,
    budget: &mut Budget,
    buffer: &mut [u8],
) -> Result<u64, TreeError> {
    let mut bytes = 0;
    let failed = |source| TreeError::from(write_failed(path, source));
    for_each_extent(source, size, path, budget, buffer, |at, piece| {
        bytes += piece.len() as u64;
        destination.write_all_at(piece, at).map_err(failed)
    })?;
    destination.set_len(size).map_err(failed)?;
    Ok(bytes)
}

/// Gives a copy the permission bits and the modification time of its source.
fn finish(copy: impl AsFd, stat: &Stat) -> Result<(), Errno> {
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    rustix::fs::futimens(&copy, &times(stat))
}

// The widths of `Stat`'s fields differ between architectures, so some conversions are no-ops here.
#[allow(clippy::unnecessary_cast)]
pub(super) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime as i64, tv_nsec: stat.st_mtime_nsec as _ },
    }
}
