//! The stream format of a tree: records, one after another, a folder before its content.
//!
//! | tag | content |
//! |---|---|
//! | [`FOLDER`] | metadata, name; then its content, up to [`LEAVE`] |
//! | [`FILE`] | metadata, name; then any number of [`DATA`], and [`SIZE`] |
//! | [`DATA`] | offset in the file, and the bytes there |
//! | [`SIZE`] | the size of the file: ranges without [`DATA`] are holes |
//! | [`LINK`] | metadata, name, target |
//! | [`OTHER`] | metadata, name: a FIFO, a socket, a device, or an unreadable entry |
//! | [`WHOLE`] | empty: the tree is complete |
//! | [`GIVEN_UP`] | empty: the rest could not be read, or exceeds the limits |
//!
//! The first record describes the outermost file or folder, without a name. Numbers are little-endian; names, targets
//! and bytes are preceded by a length of four bytes. No record has a path, so any depth is possible.

use std::io::{self, Read, Write};

use rustix::fs::{Stat, Timespec, Timestamps, UTIME_OMIT};

use crate::safe_dir::EntryMetadata;

pub(super) const FOLDER: u8 = b'd';
pub(super) const LEAVE: u8 = b'u';
pub(super) const FILE: u8 = b'f';
pub(super) const DATA: u8 = b'b';
pub(super) const SIZE: u8 = b'n';
pub(super) const LINK: u8 = b'l';
pub(super) const OTHER: u8 = b'o';
pub(super) const WHOLE: u8 = b'z';
pub(super) const GIVEN_UP: u8 = b'x';

/// Maximum bytes of a name or a target: more than the kernel allows.
pub(super) const MAX_NAME: usize = 1 << 16;

/// Metadata, and the modification time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meta {
    pub(super) rights: EntryMetadata,
    seconds: i64,
    nanoseconds: u32,
}

impl Meta {
    /// For an entry about which only its existence is known.
    pub(super) const UNKNOWN: Self =
        Self { rights: EntryMetadata { mode: 0, uid: 0, gid: 0 }, seconds: 0, nanoseconds: 0 };

    // The widths of `Stat`'s fields differ between architectures, so some conversions are no-ops here.
    #[allow(clippy::unnecessary_cast)]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            rights: EntryMetadata { mode: stat.st_mode, uid: stat.st_uid, gid: stat.st_gid },
            seconds: stat.st_mtime as i64,
            nanoseconds: stat.st_mtime_nsec as u32,
        }
    }

    pub(super) fn times(&self) -> Timestamps {
        Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.into() },
        }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for number in [self.rights.mode, self.rights.uid, self.rights.gid, self.nanoseconds] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&self.seconds.to_le_bytes())
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let [mode, uid, gid, nanoseconds] = [
            u32::from_le_bytes(array(from)?),
            u32::from_le_bytes(array(from)?),
            u32::from_le_bytes(array(from)?),
            u32::from_le_bytes(array(from)?),
        ];
        let seconds = i64::from_le_bytes(array(from)?);
        Ok(Self { rights: EntryMetadata { mode, uid, gid }, seconds, nanoseconds })
    }
}

pub(super) fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)
}

pub(super) fn read_bytes(from: &mut impl Read, most: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = u32::from_le_bytes(array(from)?) as usize;
    if length > most {
        return Err(io::Error::other("more than a record has"));
    }
    bytes.resize(length, 0);
    from.read_exact(bytes)
}

pub(super) fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
