//! Copying files and folders into and out of a sandbox, by their absolute paths inside.
//!
//! I1. Everything goes through [`SafeDir`], so content of the sandbox cannot redirect an access outside of it.
//! I2. Only exposed folders are reached; other parts of the image are not copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{Boundary, Fault};

use crate::blocking::blocking;
use crate::safe_dir::{Owner, SafeDir, SafeReadError};
use crate::tree::{
    CopyOptions, CopyReport, Exclusions, Existing, SizeLimit, TreeBounds, TreeError, copy_part,
};

/// A folder inside a sandbox that can be reached from outside, before and after the sandbox's end.
#[derive(Debug, Clone)]
pub struct ExposedFolder {
    /// Absolute path inside.
    pub path: String,
    /// The open folder.
    pub folder: Arc<SafeDir>,
    /// Owner of files written there, if this process is root.
    pub owner: Option<Owner>,
    /// Whether the folder is its own file system, as large as the sandbox's limits allow.
    pub is_bounded: bool,
}

impl ExposedFolder {
    /// Options of a copy that replaces what exists here.
    fn replacing(&self, bounds: TreeBounds, owner: Option<Owner>) -> CopyOptions {
        let size_limit = if self.is_bounded { SizeLimit::Bounded } else { SizeLimit::Shared };
        CopyOptions { bounds, owner, existing: Existing::Replaced, size_limit }
    }

    /// The innermost folder that contains a path, and the path relative to it.
    fn of<'a>(folders: &[Self], path: &'a str) -> Option<(Self, &'a Path)> {
        let inner = |exposed: &Self| Path::new(path).strip_prefix(&exposed.path).ok();
        let holding = folders.iter().filter_map(|exposed| Some((exposed, inner(exposed)?)));
        let (exposed, path) = holding.min_by_key(|(_, path)| path.as_os_str().len())?;
        Some((exposed.clone(), if path.as_os_str().is_empty() { Path::new(".") } else { path }))
    }
}

/// A copy out of a sandbox, or into one.
#[derive(Debug, Clone)]
pub struct TransferRequest {
    /// Absolute path inside, of a file or a folder.
    pub inside: String,
    /// A folder outside.
    pub outside: Arc<SafeDir>,
    /// Path in the outside folder.
    pub name: String,
    /// Entries that are not copied.
    pub exclude: Exclusions,
    /// Limits on the copy.
    pub bounds: TreeBounds,
}

/// A tree to copy into a sandbox.
#[derive(Debug, Clone)]
pub struct FillRequest {
    /// The tree, read only.
    pub tree: Arc<SafeDir>,
    /// Absolute destination path inside. `None`: the workspace.
    pub folder: Option<String>,
    /// Entries that are not copied.
    pub exclude: Exclusions,
    /// Limits on the copy.
    pub bounds: TreeBounds,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source or destination cannot be copied. The error tells whether the agent or the machine caused that.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The machine failed, or the path is in no exposed folder.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Reads a file from the exposed folders.
pub(crate) async fn read(
    folders: Vec<ExposedFolder>,
    path: String,
    cap: u64,
) -> Result<Option<Vec<u8>>, Fault> {
    let (exposed, inner) = locate(&folders, &path)?;
    match blocking(move || exposed.folder.read_file(inner, cap)).await? {
        Ok(bytes) => Ok(Some(bytes)),
        Err(SafeReadError::Missing { .. }) => Ok(None),
        Err(error) if error.is_infrastructure() => {
            Err(Fault::transient(Boundary::Env, "unreadable", format!("{path}: {error}")))
        }
        Err(error) => Err(Fault::permanent(Boundary::Env, "unreadable", format!("{path}: {error}"))),
    }
}

/// Copies from an exposed folder to the outside.
pub(crate) async fn out(
    folders: Vec<ExposedFolder>,
    request: TransferRequest,
) -> Result<CopyReport, TransferError> {
    let TransferRequest { inside, outside, name, exclude, bounds } = request;
    let (exposed, inner) = locate(&folders, &inside)?;
    let options = CopyOptions { bounds, ..CopyOptions::default() };
    Ok(blocking(move || copy_part(&exposed.folder, inner, &outside, name, &exclude, options)).await??)
}

/// Copies from outside into an exposed folder, replacing what exists.
pub(crate) async fn into(
    folders: Vec<ExposedFolder>,
    request: TransferRequest,
) -> Result<CopyReport, TransferError> {
    let TransferRequest { inside, outside, name, exclude, bounds } = request;
    let (exposed, inner) = locate(&folders, &inside)?;
    let options = exposed.replacing(bounds, exposed.owner);
    Ok(blocking(move || copy_part(&outside, name, &exposed.folder, inner, &exclude, options)).await??)
}

/// Fills an exposed folder, or a folder below it. The workspace is the first exposed folder, and its owner is the
/// agent.
pub(crate) async fn fill(
    folders: Vec<ExposedFolder>,
    request: FillRequest,
) -> Result<Result<CopyReport, TreeError>, Fault> {
    let FillRequest { tree, folder, exclude, bounds } = request;
    let workspace = folders.first();
    let owner = workspace.and_then(|exposed| exposed.owner);
    let path = folder.or_else(|| Some(workspace?.path.clone())).ok_or_else(|| not_kept("the workspace"))?;
    let (exposed, inner) = locate(&folders, &path)?;
    let options = exposed.replacing(bounds, owner);
    blocking(move || copy_part(&tree, Path::new("."), &exposed.folder, inner, &exclude, options)).await
}

/// The exposed folder that contains a path, and the path relative to it.
fn locate(folders: &[ExposedFolder], path: &str) -> Result<(ExposedFolder, PathBuf), Fault> {
    let (exposed, inner) = ExposedFolder::of(folders, path).ok_or_else(|| not_kept(path))?;
    Ok((exposed, inner.to_owned()))
}

fn not_kept(path: &str) -> Fault {
    let message = format!(
        "{path} is outside the folders that can be copied: the workspace, and with an image /home/agent, \
         /tmp, /logs and /dev/shm"
    );
    Fault::permanent(Boundary::Env, "not-kept", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_folder_contains_path() {
        let folder = Arc::new(SafeDir::open("/").unwrap());
        let exposed = |path: &str| ExposedFolder {
            path: path.to_owned(),
            folder: Arc::clone(&folder),
            owner: None,
            is_bounded: false,
        };
        let exposed_folders = [exposed("/tmp"), exposed("/tmp/work"), exposed("/logs")];
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = ExposedFolder::of(&exposed_folders, path);
            let found =
                found.as_ref().map(|(exposed, inner)| (exposed.path.as_str(), inner.to_str().unwrap()));
            assert_eq!(found, expected, "{path}");
        };
        check("/tmp/a", Some(("/tmp", "a")));
        check("/tmp/work/a/b", Some(("/tmp/work", "a/b")));
        check("/tmp/workshop", Some(("/tmp", "workshop")));
        check("/logs", Some(("/logs", ".")));
        check("/etc/passwd", None);
    }
}
