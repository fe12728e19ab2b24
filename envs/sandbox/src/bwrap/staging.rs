//! Host files that a sandbox sees read-only, in a temporary folder.

use std::path::{Path, PathBuf};

use clawrl_core::{Boundary, Fault};

use crate::PutFile;
use crate::safe_dir::SafeDir;

/// How often the folder is created again when another thread of this process removes its parent.
const MAX_TRIES: u32 = 100;

/// A folder in the system's temporary folder, removed when dropped.
#[derive(Debug)]
pub(super) struct StagingDir {
    folder: PathBuf,
}

impl StagingDir {
    /// Writes files into a fresh folder. All users may read them, because the sandbox's user has to; a file that its
    /// owner may execute is executable by all. Blocks.
    pub(super) fn write(folder: PathBuf, files: &[PutFile]) -> Result<Self, Fault> {
        let failed = |what: String| {
            let message = format!("the folder {} for files of a sandbox: {what}", folder.display());
            Fault::transient(Boundary::Provider, "stage", message)
        };
        let made = make(&folder).map_err(|error| failed(error.to_string()));
        // From here on the folder is removed whatever happens.
        let staged = Self { folder: folder.clone() };
        made?;
        let inside = SafeDir::open(&folder).map_err(|error| failed(error.to_string()))?;
        for file in files {
            let execute = if file.mode & 0o100 != 0 { 0o111 } else { 0 };
            file.write_to(&inside, file.mode & 0o777 | 0o444 | execute, None)
                .map_err(|error| failed(error.to_string()))?;
        }
        Ok(staged)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn make(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let open = |folder: &Path| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755));
    let make = || {
        if let Some(parent) = folder.parent() {
            std::fs::create_dir_all(parent)?;
            open(parent)?;
        }
        std::fs::create_dir(folder)?;
        open(folder)
    };
    let mut tries = 0;
    loop {
        match make() {
            // Another value that is dropped at this moment removes the parent while it is empty.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && tries < MAX_TRIES => tries += 1,
            made => return made,
        }
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %self.folder.display(), %error, "staged files could not be removed");
        }
        // Only the last removal finds the parent empty.
        let _ = self.folder.parent().map(std::fs::remove_dir);
    }
}
