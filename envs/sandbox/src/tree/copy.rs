//! A copy of a tree, for command checks in a fresh sandbox.
//!
//! Kept: names, contents (holes stay holes), link targets, permission bits without setuid, setgid and
//! sticky, times of last modification. Hard links become files of their own. Left out and listed:
//! FIFOs, sockets, devices, and what this process may not read.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::bounds::Budget;
use super::chain::Chain;
use super::remove::{open_up, remove};
use super::walk::{Entry, Visitor, walk};
use super::{Exclusions, Room, TreeBounds, TreeError};
use crate::safe_dir::{ActingAs, FOLDER, failed, open_beneath, read_link, write_failed};
use crate::{EntryStat, FileKind, Owner, SafeDir, SafeReadError};

/// How a tree is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Bounds on the source.
    pub bounds: TreeBounds,
    /// Who owns the copy, when this process is root. `None`, or the process's own ids: the process.
    pub owner: Option<Owner>,
    /// What becomes of names that the destination has already.
    pub existing: Existing,
    /// What the destination's file system is.
    pub room: Room,
    /// Everything below the outermost folder keeps its owner, whoever `owner` is, and setuid, setgid and sticky. Only root
    /// can, and only for a copy that nobody else reaches.
    pub keep_rights: bool,
}

/// What becomes of names that a destination has already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// The copy fails.
    #[default]
    Refused,
    /// Folders are filled; anything else is removed first, and so is a folder where something else comes.
    Replaced,
}

/// What a copy holds.
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
    /// What the copy lacks, in the order of the walk.
    pub skipped: Vec<Skipped>,
}

/// An entry that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Relative to the source.
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

/// Why an entry was not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// It is a FIFO, a socket or a device.
    Special(FileKind),
    /// This process may not read it. A folder is left out with its content.
    Unreadable,
}

/// Copies the content of one folder into another.
///
/// Ownership and modes of the outermost folder stay as they are. Blocks.
///
/// # Errors
/// [`TreeError`]; the copy is then incomplete and of no use.
pub fn copy_tree(
    source: &SafeDir,
    destination: &SafeDir,
    options: CopyOptions,
) -> Result<CopyReport, TreeError> {
    copy_folder(source, Path::new("."), destination, &Exclusions::default(), options)
}

/// The same for a folder in the source, with what is left behind.
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
        keep_rights: options.keep_rights,
        exclude,
        buffer: vec![0; 64 * 1024],
        report: CopyReport::default(),
    };
    walk(source, from, options.bounds, &mut copy).map_err(|error| options.room.judged(error))?;
    Ok(copy.report)
}

struct Copy<'a> {
    /// Follows the walk through the destination.
    chain: Chain,
    owner: Option<Owner>,
    existing: Existing,
    keep_rights: bool,
    exclude: &'a Exclusions,
    buffer: Vec<u8>,
    report: CopyReport,
}

impl Copy<'_> {
    fn acting(&self, path: &Path) -> Result<ActingAs, TreeError> {
        ActingAs::owner(self.owner).map_err(|source| write_failed(path, source).into())
    }

    /// Removes what has the entry's name already, if that is what is wanted. Whether it is a folder that may stay.
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
        let stat = rustix::fs::fstat(&source).map_err(|errno| failed(path, errno))?;
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
        let (mut source, mut destination) = (File::from(source), File::from(destination));
        self.data(&mut source, &mut destination, size, path, budget)?;
        let _acting = self.acting(path)?;
        finish(destination.as_fd(), &stat, self.keep_rights)
            .map_err(|errno| write_failed(path, errno.into()))?;
        self.report.files += 1;
        Ok(())
    }

    /// Copies `[0, size)`, from one stretch of data to the next.
    fn data(
        &mut self,
        source: &mut File,
        destination: &mut File,
        size: u64,
        path: &Path,
        budget: &mut Budget,
    ) -> Result<(), TreeError> {
        let read = |source| TreeError::from(SafeReadError::Io { path: path.to_owned(), source });
        let write = |source| TreeError::from(write_failed(path, source));
        let mut at = 0;
        while at < size {
            let start = match rustix::fs::seek(&*source, SeekFrom::Data(at)) {
                Ok(start) => start.min(size),
                Err(Errno::NXIO) => break,
                Err(errno) => return Err(read(errno.into())),
            };
            let end = rustix::fs::seek(&*source, SeekFrom::Hole(start)).map_or(size, |end| end.min(size));
            rustix::fs::seek(&*source, SeekFrom::Start(start)).map_err(|errno| read(errno.into()))?;
            rustix::fs::seek(&*destination, SeekFrom::Start(start)).map_err(|errno| write(errno.into()))?;
            at = start;
            while at < end {
                let most = usize::try_from(end - at).map_or(self.buffer.len(), |n| n.min(self.buffer.len()));
                let count = match source.read(&mut self.buffer[..most]) {
                    // It was cut while it was read: the rest is a hole in the copy.
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(read(error)),
                };
                budget.bytes(count as u64, path)?;
                destination.write_all(&self.buffer[..count]).map_err(write)?;
                self.report.bytes += count as u64;
                at += count as u64;
            }
            at = end;
        }
        rustix::fs::ftruncate(&*destination, size).map_err(|errno| write(errno.into()))
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
                if self.keep_rights {
                    let (owner, flags) = (owner(entry.stat), AtFlags::SYMLINK_NOFOLLOW);
                    rustix::fs::chownat(folder, entry.name, owner.0, owner.1, flags)?;
                }
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
            // Its own bits come when it is left: they may forbid to write into it.
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
                let reason = SkipReason::Special(special);
                self.report.skipped.push(Skipped { path: entry.path.to_owned(), reason });
                Ok(())
            }
        }
    }

    fn leave(&mut self, stat: &Stat, path: &Path) -> Result<(), TreeError> {
        let _acting = self.acting(path)?;
        self.chain
            .folder()
            .and_then(|folder| finish(folder, stat, self.keep_rights))
            .map_err(|errno| write_failed(path, errno.into()))?;
        self.chain.pop();
        Ok(())
    }

    fn unreadable(&mut self, path: &Path, _: SafeReadError) -> Result<(), TreeError> {
        self.report.skipped.push(Skipped { path: path.to_owned(), reason: SkipReason::Unreadable });
        Ok(())
    }
}

/// Gives a copy the permission bits and the time of its source, and with `keep_rights` what is left out otherwise.
fn finish(copy: impl AsFd, stat: &Stat, keep_rights: bool) -> Result<(), Errno> {
    if keep_rights {
        // Before the bits, some of which a change of owner takes away.
        let (user, group) = owner(stat);
        rustix::fs::fchown(&copy, user, group)?;
    }
    let kept = if keep_rights { 0o7777 } else { 0o777 };
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & kept))?;
    rustix::fs::futimens(&copy, &times(stat))
}

fn owner(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

// The widths of `Stat`'s fields differ between architectures, so some conversions are no-ops here.
#[allow(clippy::unnecessary_cast)]
fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime as i64, tv_nsec: stat.st_mtime_nsec as _ },
    }
}
