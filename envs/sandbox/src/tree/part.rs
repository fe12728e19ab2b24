//! A file or a folder of one tree, copied to a place in another.

use std::path::Path;

use super::copy::copy_folder;
use super::{CopyOptions, CopyReport, Exclusions, TreeError};
use crate::safe_dir::clean;
use crate::{FileKind, SafeDir, SafeReadError};

/// Copies what is at `from` to `to`; folders above `to` are made.
///
/// A link at `from` is refused, not followed. A single file is held in memory on its way, within the bounds. Blocks.
///
/// # Errors
/// [`TreeError`]; the copy is then incomplete and of no use.
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
    match stat.kind {
        FileKind::Folder => {
            destination.make_dirs(&to, stat.mode | 0o700, options.owner)?;
            let folder = SafeDir::from_fd(destination.open_folder(&to)?)?;
            copy_folder(source, &from, &folder, exclude, options)
        }
        FileKind::Regular => {
            let bytes = source.read_file(&from, options.bounds.bytes)?;
            destination.write_file(&to, &bytes, stat.mode & 0o777, options.owner)?;
            Ok(CopyReport { files: 1, bytes: bytes.len() as u64, ..CopyReport::default() })
        }
        FileKind::Symlink => Err(SafeReadError::Symlink { path: from }.into()),
        kind => Err(SafeReadError::NotRegular { path: from, kind }.into()),
    }
}
