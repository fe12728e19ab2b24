//! Reads a file's data extents; holes are skipped.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::TreeError;
use super::bounds::Budget;
use crate::SafeReadError;

/// Maximum bytes read at once.
pub(super) const PIECE: usize = 64 << 10;

/// Passes the data in `[0, size)` on, each piece with its offset.
pub(super) fn for_each_extent(
    source: &mut File,
    size: u64,
    path: &Path,
    budget: &mut Budget,
    buffer: &mut [u8],
    mut take: impl FnMut(u64, &[u8]) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let failed = |source: io::Error| TreeError::from(SafeReadError::Io { path: path.to_owned(), source });
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(&*source, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(failed(errno.into())),
        };
        let end = rustix::fs::seek(&*source, SeekFrom::Hole(start)).map_or(size, |end| end.min(size));
        rustix::fs::seek(&*source, SeekFrom::Start(start)).map_err(|errno| failed(errno.into()))?;
        at = start;
        while at < end {
            let most = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            let count = match source.read(&mut buffer[..most]) {
                // The file was truncated while it was read: the rest is a hole in the copy.
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            budget.bytes(count as u64, path)?;
            take(at, &buffer[..count])?;
            at += count as u64;
        }
        at = end;
    }
    Ok(())
}
