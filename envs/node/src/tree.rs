//! Trees on their way between two machines, as archives.
//!
//! I1. A tree is first copied aside, by [`clawrl_sandbox::copy_part`], which follows no link and keeps within bounds; only
//! that copy is packed. I2. Holes are sent as what they read as, so that they count as bytes here.

use std::io;
use std::path::Path;
use std::sync::Arc;

use clawrl_sandbox::{
    CopyOptions, CopyReport, Exclusions, SafeDir, TreeBound, TreeBounds, TreeError, copy_part,
};
use tempfile::TempDir;

use crate::body::{PieceReader, PieceWriter};

/// What was copied aside; removed when it is dropped.
pub(crate) struct Aside(TempDir);

impl Aside {
    /// The name of what was copied, be it a file or a folder.
    pub(crate) const NAME: &str = "t";

    /// With nothing in it yet, and its folder. Blocks.
    pub(crate) fn empty() -> io::Result<(Self, Arc<SafeDir>)> {
        let aside = Self(tempfile::tempdir()?);
        let folder = SafeDir::open(aside.0.path()).map_err(io::Error::other)?;
        Ok((aside, Arc::new(folder)))
    }

    /// Copies what is at a path of a folder. Blocks.
    pub(crate) fn copy(
        source: &SafeDir,
        from: &Path,
        exclude: &Exclusions,
        options: CopyOptions,
    ) -> io::Result<Result<(Self, CopyReport), TreeError>> {
        let (aside, folder) = Self::empty()?;
        let copied = copy_part(source, from, &folder, Self::NAME, exclude, options);
        Ok(copied.and_then(|report| aside.within(options.bounds).map(|()| (aside, report))))
    }

    /// I2. Blocks.
    pub(crate) fn within(&self, bounds: TreeBounds) -> Result<(), TreeError> {
        let mut left = bounds.bytes;
        let mut folders = vec![self.0.path().to_owned()];
        let failed = |path: &Path, source| clawrl_sandbox::SafeReadError::Io { path: path.into(), source };
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
                let entry = entry.map_err(|error| failed(&folder, error))?;
                let stat = entry.metadata().map_err(|error| failed(&entry.path(), error))?;
                if stat.is_dir() {
                    folders.push(entry.path());
                } else {
                    left = left.checked_sub(stat.len()).ok_or_else(|| TreeError::Bound {
                        bound: TreeBound::Bytes,
                        limit: bounds.bytes,
                        path: entry.path().strip_prefix(self.0.path()).unwrap_or(Path::new(".")).into(),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Packs it. Blocks.
    pub(crate) fn pack(self, mut writer: PieceWriter) {
        let mut archive = tar::Builder::new(&mut writer);
        archive.follow_symlinks(false);
        archive.sparse(false);
        let packed = archive.append_dir_all(".", self.0.path()).and_then(|()| archive.finish());
        drop(archive);
        writer.finish(packed);
    }

    /// Unpacks what was packed elsewhere; with owners only as root. Blocks.
    pub(crate) fn unpack(reader: PieceReader, with_owners: bool) -> io::Result<Self> {
        let aside = Self(tempfile::tempdir()?);
        let mut archive = tar::Archive::new(reader);
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(with_owners);
        archive.set_overwrite(false);
        archive.unpack(aside.0.path())?;
        // An archive ends before its stream does: only the whole stream is the whole tree.
        io::copy(&mut archive.into_inner(), &mut io::sink())?;
        Ok(aside)
    }

    /// The copy, and its name there. It stays until the last clone of the folder is dropped.
    pub(crate) fn into_folder(self) -> io::Result<(SafeDir, &'static str)> {
        let path = self.0.path().to_owned();
        let folder = SafeDir::open_kept(path, Arc::new(self.0)).map_err(io::Error::other)?;
        Ok((folder, Self::NAME))
    }

    /// The copy as a folder.
    pub(crate) fn into_tree(self) -> io::Result<SafeDir> {
        let path = self.0.path().join(Self::NAME);
        SafeDir::open_kept(path, Arc::new(self.0)).map_err(io::Error::other)
    }
}
