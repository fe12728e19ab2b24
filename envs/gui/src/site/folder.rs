//! A host folder as recorded in the plan: its hash, and the files that it had when the hash was computed.
//!
//! The hash is the hex SHA-256 over each file in the byte order of its path: the path relative to the folder with `/`
//! between its components, a NUL, the length in decimal digits, a NUL, the content. Links and other entries that are
//! not regular files are left out, and so are folders without files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawrl_core::hex;
use clawrl_sandbox::SafeDir;
use sha2::{Digest as _, Sha256};

const PIECE: usize = 128 << 10;

/// The hash of a folder. Blocks while all of it is read.
///
/// # Errors
/// A file that could not be read, or that changed meanwhile.
pub fn folder_hash(path: &Path) -> io::Result<String> {
    Folder::read(path).map(|folder| folder.sha256)
}

/// A folder whose content has a hash.
#[derive(Debug)]
pub(super) struct Folder {
    dir: SafeDir,
    files: BTreeMap<Vec<u8>, Stamp>,
    pub(super) sha256: String,
}

impl Folder {
    /// Reads all of a folder. Blocks.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let dir = SafeDir::open(path).map_err(io::Error::other)?;
        let mut files = BTreeMap::new();
        let mut hasher = Sha256::new();
        for name in names(path)? {
            let mut file = dir.open_file(OsStr::from_bytes(&name)).map_err(io::Error::other)?;
            let metadata = file.metadata()?;
            hasher.update(&name);
            hasher.update(format!("\0{}\0", metadata.len()));
            if feed(&mut hasher, &mut file)? != metadata.len() {
                let name = String::from_utf8_lossy(&name);
                return Err(io::Error::other(format!("{name:?} changed while it was read")));
            }
            files.insert(name, Stamp::of(&metadata));
        }
        Ok(Self { dir, files, sha256: hex(&hasher.finalize()) })
    }

    /// Whether there is a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name.as_bytes())
    }

    /// Opens a file, unless it has changed since it was hashed.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        let file = self.dir.open_file(name).map_err(io::Error::other)?;
        match self.files.get(name.as_bytes()) {
            Some(stamp) if *stamp == Stamp::of(&file.metadata()?) => Ok(file),
            _ => Err(io::Error::other("it has changed since the plan was made")),
        }
    }
}

/// A host file whose content has a hash.
#[derive(Debug)]
pub(super) struct HostFile {
    path: PathBuf,
    stamp: Stamp,
    pub(super) sha256: String,
}

impl HostFile {
    /// Reads all of a file. Blocks.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut file = regular(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        let mut hasher = Sha256::new();
        feed(&mut hasher, &mut file)?;
        if Stamp::of(&file.metadata()?) != stamp {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(Self { path: path.to_owned(), stamp, sha256: hex(&hasher.finalize()) })
    }

    /// Opens it, unless it has changed since it was hashed.
    pub(super) fn open(&self) -> io::Result<File> {
        let file = regular(&self.path)?;
        if Stamp::of(&file.metadata()?) == self.stamp {
            Ok(file)
        } else {
            Err(io::Error::other("it has changed since the plan was made"))
        }
    }

    /// Its path for messages; the extension determines its type.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Metadata that changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// The relative paths of all regular files, in byte order.
fn names(root: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(OsStr::from_bytes(&folder)))? {
            let entry = entry?;
            let mut name = folder.clone();
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend(entry.file_name().into_vec());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() {
                names.push(name);
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a file whose path is trusted. Does not block on a FIFO.
fn regular(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Feeds a file to the hash, and returns its length.
fn feed(hasher: &mut Sha256, file: &mut File) -> io::Result<u64> {
    let mut piece = vec![0; PIECE];
    let mut length = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(length),
            Ok(read) => {
                hasher.update(&piece[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_hash_is_that_of_paths_lengths_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/empty")).unwrap();
        fs::write(folder.path().join("a/b"), "one").unwrap();
        // `-` sorts before `/`: the order is that of the paths, not of the folders.
        fs::write(folder.path().join("a-b"), "").unwrap();
        symlink("/etc/passwd", folder.path().join("passwd")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let expected = hex(&Sha256::digest(b"a-b\x000\0a/b\x003\0one"));
        assert_eq!(folder_hash(folder.path()).unwrap(), expected);
        fs::write(folder.path().join("a/b"), "two").unwrap();
        assert_ne!(folder_hash(folder.path()).unwrap(), expected);
    }

    #[test]
    fn non_folder_has_no_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(folder_hash(file.path()).is_err());
        assert!(folder_hash(Path::new("/nowhere/at/all")).is_err());
    }
}
