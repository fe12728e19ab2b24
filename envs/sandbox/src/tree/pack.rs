//! Writes a tree to a stream.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat};

use super::bounds::Budget;
use super::data_extents::{PIECE, for_each_extent};
use super::part::single;
use super::stream::{DATA, FILE, FOLDER, GIVEN_UP, LEAVE, LINK, Meta, OTHER, SIZE, WHOLE, write_bytes};
use super::walk::{Entry, Visitor, walk};
use super::{Exclusions, TreeBounds, TreeError};
use crate::safe_dir::{Permission, clean, failed, open_beneath, read_link, write_failed};
use crate::{EntryStat, FileKind, SafeDir, SafeReadError};

/// Writes the file or folder at `from`, for [`unpack_tree`](super::unpack_tree).
///
/// The stream has everything that a reader of the tree would see: kinds, permissions, owners, modification times,
/// contents (holes stay holes), link targets, and the existence of entries that this process may not read. A link at
/// `from` is refused, not followed. Blocks.
///
/// # Errors
/// [`TreeError`]; the stream tells the receiver that the rest is missing. An error of `out` is a write error.
pub fn pack_tree(
    source: &SafeDir,
    from: impl AsRef<Path>,
    exclude: &Exclusions,
    bounds: TreeBounds,
    out: &mut impl Write,
) -> Result<(), TreeError> {
    let mut pack = Pack { out, exclude, buffer: vec![0; PIECE] };
    let packed = pack.part(source, from.as_ref(), bounds);
    let end = if packed.is_ok() { WHOLE } else { GIVEN_UP };
    // After an error the first one counts.
    packed.and(pack.out.write_all(&[end]).map_err(|source| write_failed(Path::new("."), source).into()))
}

struct Pack<'a, W> {
    out: &'a mut W,
    exclude: &'a Exclusions,
    buffer: Vec<u8>,
}

impl<W: Write> Pack<'_, W> {
    fn part(&mut self, source: &SafeDir, from: &Path, bounds: TreeBounds) -> Result<(), TreeError> {
        let from = clean(from)?;
        let stat = source.whole_stat(&from)?;
        match EntryStat::from(&stat).kind {
            FileKind::Folder => {
                self.begin(FOLDER, &stat, &from, b"")?;
                walk(source, &from, bounds, self)?;
                self.leave(&stat, &from)
            }
            FileKind::Regular => {
                let (mut file, size) = single(source, &from, bounds.bytes)?;
                self.content(&mut file, size, (&stat, b""), &from, &mut Budget::new(bounds))
            }
            FileKind::Symlink => Err(SafeReadError::Symlink { path: from }.into()),
            kind => Err(SafeReadError::NotRegular { path: from, kind }.into()),
        }
    }

    fn begin(&mut self, tag: u8, stat: &Stat, path: &Path, name: &[u8]) -> Result<(), TreeError> {
        let out = &mut self.out;
        let begun = out.write_all(&[tag]).and_then(|()| Meta::of(stat).write(out));
        begun.and_then(|()| write_bytes(out, name)).map_err(|source| write_failed(path, source).into())
    }

    fn content(
        &mut self,
        file: &mut File,
        size: u64,
        (stat, name): (&Stat, &[u8]),
        path: &Path,
        budget: &mut Budget,
    ) -> Result<(), TreeError> {
        self.begin(FILE, stat, path, name)?;
        let out = &mut self.out;
        let failed = |source: io::Error| TreeError::from(write_failed(path, source));
        for_each_extent(file, size, path, budget, &mut self.buffer, |at, piece| {
            let placed = out.write_all(&[DATA]).and_then(|()| out.write_all(&at.to_le_bytes()));
            placed.and_then(|()| write_bytes(out, piece)).map_err(failed)
        })?;
        let ended = self.out.write_all(&[SIZE]);
        ended.and_then(|()| self.out.write_all(&size.to_le_bytes())).map_err(failed)
    }

    fn file(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        let path = entry.path;
        let fd = match open_beneath(entry.folder, entry.name, OFlags::RDONLY, Mode::empty()) {
            Ok(fd) => fd,
            Err(errno) => match failed(path, errno) {
                error @ SafeReadError::Unreadable { .. } => return self.unreadable(path, error),
                error => return Err(error.into()),
            },
        };
        let stat = match entry.tree.must_allow(path, fd.as_fd(), Permission::Read) {
            Err(error @ SafeReadError::Unreadable { .. }) => return self.unreadable(path, error),
            stat => stat?,
        };
        let EntryStat { kind, size, .. } = EntryStat::from(&stat);
        if kind != FileKind::Regular {
            return Err(SafeReadError::NotRegular { path: path.to_owned(), kind }.into());
        }
        self.content(&mut File::from(fd), size, (&stat, entry.name.to_bytes()), path, budget)
    }
}

impl<W: Write> Visitor for Pack<'_, W> {
    fn passes_over(&self, path: &[u8]) -> bool {
        self.exclude.cover(path)
    }

    fn enter(&mut self, entry: &Entry<'_>, _: &mut Budget) -> Result<(), TreeError> {
        self.begin(FOLDER, entry.stat, entry.path, entry.name.to_bytes())
    }

    fn leaf(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), TreeError> {
        let name = entry.name.to_bytes();
        match entry.kind {
            FileKind::Regular => self.file(entry, budget),
            FileKind::Symlink => {
                let target = read_link(entry.folder, entry.name, entry.path)?;
                budget.bytes(target.as_bytes().len() as u64, entry.path)?;
                self.begin(LINK, entry.stat, entry.path, name)?;
                write_bytes(self.out, target.as_bytes())
                    .map_err(|source| write_failed(entry.path, source).into())
            }
            _ => self.begin(OTHER, entry.stat, entry.path, name),
        }
    }

    fn leave(&mut self, _: &Stat, path: &Path) -> Result<(), TreeError> {
        self.out.write_all(&[LEAVE]).map_err(|source| write_failed(path, source).into())
    }

    fn unreadable(&mut self, path: &Path, _: SafeReadError) -> Result<(), TreeError> {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let out = &mut self.out;
        let written = out.write_all(&[OTHER]).and_then(|()| Meta::UNKNOWN.write(out));
        written.and_then(|()| write_bytes(out, name)).map_err(|source| write_failed(path, source).into())
    }
}
