//! The disk under the ledger: its kind, and the time of an fsync.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Number of syncs: enough for a p99 that is not the maximum.
const SYNCS: usize = 200;
/// File systems whose fsync does nothing: tmpfs and ramfs, by `linux/magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether the folder is on a memory file system.
pub(super) fn is_in_memory(folder: &Path) -> io::Result<bool> {
    let made_by = rustix::fs::statfs(folder)?.f_type as u64;
    // The field is signed, and has 32 bits on some machines.
    Ok(IN_MEMORY.contains(&(made_by & 0xffff_ffff)))
}

/// Times of appending 4 KiB and an fsync, in milliseconds.
pub(super) fn syncs(folder: &Path) -> io::Result<Vec<f64>> {
    let file = tempfile::NamedTempFile::new_in(folder)?;
    let mut end: &File = file.as_file();
    let sync = || -> io::Result<f64> {
        let begun = Instant::now();
        end.write_all(&[7; 4096])?;
        end.sync_data()?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
    std::iter::repeat_with(sync).take(SYNCS).collect()
}
