//! Copies a file or a folder from one tree to a path in another.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::Mode;

use super::bounds::Budget;
use super::copy::{copy_folder, data};
use super::data_extents::PIECE;
use super::remove::{open_up, remove};
use super::{CopyOptions, CopyReport, Exclusions, Existing, TreeError};
use crate::safe_dir::{clean, failed};
use crate::{EntryStat, FileKind, SafeDir, SafeReadError};

/// Copies the entry at `from` to `to`; missing folders above `to` are created.
///
/// A link at `from` is refused, not followed. With [`Existing::Replaced`], an entry on the way to `to` that is not a
/// folder is replaced by one, and the entry at `to` is replaced unless both are folders. A file cannot replace the
/// whole destination. Blocks.
///
/// # Errors
/// [`TreeError`]; the copy is then incomplete and must not be used.
pub fn copy_part(
    source: &SafeDir,
    from: impl AsRef<Path>,
    destination: &SafeDir,
    to: impl AsRef<Path>,
    exclude: &Exclusions,
    options: CopyOptions,
) -> Result<CopyReport, TreeError> {
    let (from, to) = (clean(from.as_ref())?, clean(to.as_ref())?);
    let stat = source.stat(&from)?;
    let is_folder = stat.kind == FileKind::Folder;
    match stat.kind {
        FileKind::Folder => {}
        FileKind::Regular if to == Path::new(".") => {
            return Err(SafeReadError::NotFolder { path: from, kind: stat.kind }.into());
        }
        FileKind::Regular => {}
        FileKind::Symlink => return Err(SafeReadError::Symlink { path: from }.into()),
        kind => return Err(SafeReadError::NotRegular { path: from, kind }.into()),
    }
    let put = || -> Result<CopyReport, TreeError> {
        // Opened before anything is removed.
        let file = if is_folder { None } else { Some(single(source, &from, options.bounds.bytes)?) };
        let _opened = match options.existing {
            Existing::Refused => None,
            Existing::Replaced => Some(make_way(destination, &to, is_folder)?),
        };
        match file {
            None => {
                destination.make_dirs(&to, stat.mode | 0o700, options.owner)?;
                let folder = SafeDir::from_fd(destination.open_folder(&to)?)?;
                copy_folder(source, &from, &folder, exclude, options)
            }
            Some((mut file, size)) => {
                let mut budget = Budget::new(options.bounds);
                let bytes =
                    destination.write_with(&to, stat.mode & 0o777, options.owner, |written, path| {
                        data(&mut file, written, size, path, &mut budget, &mut vec![0; PIECE])
                    })?;
                Ok(CopyReport { files: 1, bytes, ..CopyReport::default() })
            }
        }
    };
    put().map_err(|error| options.size_limit.classify(error))
}

/// Opens a single file, and returns its size: a file requested by name may be read whole.
pub(super) fn single(source: &SafeDir, from: &Path, cap: u64) -> Result<(File, u64), SafeReadError> {
    let file = source.open_regular(from)?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(from, errno))?;
    let size = EntryStat::from(&stat).size;
    if size > cap {
        return Err(SafeReadError::TooLarge { path: from.to_owned(), size, cap });
    }
    Ok((File::from(file), size))
}

/// Removes what is in the way of a file or a folder, and opens the innermost existing folder on the path.
fn make_way(destination: &SafeDir, to: &Path, for_folder: bool) -> Result<WritableFolder, TreeError> {
    let mut opened = WritableFolder::new(destination.open_folder(Path::new("."))?);
    let mut ways: Vec<&Path> =
        to.ancestors().filter(|way| !way.as_os_str().is_empty() && *way != Path::new(".")).collect();
    ways.reverse();
    for way in ways {
        match destination.stat(way) {
            Ok(found) if found.kind == FileKind::Folder && (way != to || for_folder) => {
                opened = WritableFolder::new(destination.open_folder(way)?);
            }
            Ok(_) => {
                let name = way.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
                remove(opened.folder.as_fd(), &CString::new(name).unwrap_or_default(), way)?;
                // Nothing is below an entry that is not a folder, or is gone.
                break;
            }
            Err(SafeReadError::Missing { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(opened)
}

/// Makes a folder writable for its owner while this value lives; then its mode is restored.
struct WritableFolder {
    folder: OwnedFd,
    bits: Option<Mode>,
}

impl WritableFolder {
    fn new(folder: OwnedFd) -> Self {
        let bits = rustix::fs::fstat(&folder).ok().map(|stat| EntryStat::from(&stat).mode);
        let closed = bits.filter(|bits| bits & 0o300 != 0o300);
        if closed.is_some() {
            open_up(folder.as_fd());
        }
        Self { folder, bits: closed.map(Mode::from_raw_mode) }
    }
}

impl Drop for WritableFolder {
    fn drop(&mut self) {
        if let Some(bits) = self.bits {
            let _ = rustix::fs::fchmod(&self.folder, bits);
        }
    }
}
