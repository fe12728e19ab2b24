//! Kind and metadata of a folder's entry.

use std::fmt;

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// A symbolic link, whatever it points to.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A kind that this program does not know.
    Unknown,
}

impl FileKind {
    /// One letter, as in `find -printf %y`: `f d l p s c b`, and `?`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Regular => 'f',
            Self::Folder => 'd',
            Self::Symlink => 'l',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::CharDevice => 'c',
            Self::BlockDevice => 'b',
            Self::Unknown => '?',
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Folder => "a folder",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::CharDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Unknown => "of an unknown kind",
        })
    }
}

/// Metadata of the entry itself, never of a link's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryStat {
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits, with setuid, setgid and sticky: `st_mode & 0o7777`.
    pub mode: u32,
    /// Owner, as numbered for this process (outside any sandbox).
    pub uid: u32,
    /// Group, as numbered for this process.
    pub gid: u32,
    /// Size in bytes, holes included.
    pub size: u64,
    /// Number of hard links.
    pub nlink: u64,
}

impl From<&Stat> for EntryStat {
    // The widths of `Stat`'s fields differ between architectures, so some conversions are no-ops here.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    fn from(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice => FileKind::CharDevice,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Unknown => FileKind::Unknown,
        };
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            nlink: stat.st_nlink as u64,
        }
    }
}
