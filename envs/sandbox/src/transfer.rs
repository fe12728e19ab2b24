//! Files and folders carried into a sandbox and out of it, by their absolute paths inside.
//!
//! I1. Everything goes through [`SafeDir`]: what is inside leads nowhere else. I2. Only places that a sandbox keeps
//! are reached; what lies in its image is not carried.

use std::path::Path;
use std::sync::Arc;

use clawrl_core::{Boundary, Fault};

use crate::blocking::blocking;
use crate::safe_dir::{Owner, SafeDir, SafeReadError};
use crate::tree::{
    CopyOptions, CopyReport, Exclusions, Existing, SizeLimit, TreeBounds, TreeError, copy_part,
};

/// A folder inside a sandbox that can be reached from outside, before and after its end.
#[derive(Debug, Clone)]
pub struct ExposedFolder {
    /// Its absolute path inside.
    pub path: String,
    /// The folder.
    pub folder: Arc<SafeDir>,
    /// Who owns what is written there, when this process is root.
    pub owner: Option<Owner>,
    /// Whether it is a file system of its own, as large as the sandbox's limits say.
    pub is_bounded: bool,
}

impl ExposedFolder {
    /// What its file system is to a copy.
    #[must_use]
    pub fn size_limit(&self) -> SizeLimit {
        if self.is_bounded { SizeLimit::Bounded } else { SizeLimit::Shared }
    }

    /// The path from here of something inside, if it is inside.
    #[must_use]
    pub fn relative<'a>(&self, path: &'a str) -> Option<&'a Path> {
        Path::new(path).strip_prefix(&self.path).ok()
    }

    /// The innermost of some places that holds a path, and the path from there.
    #[must_use]
    pub fn of<'a>(exposed_folders: &[Self], path: &'a str) -> Option<(Self, &'a Path)> {
        let holding = exposed_folders.iter().filter_map(|exposed| Some((exposed, exposed.relative(path)?)));
        let (exposed, path) = holding.min_by_key(|(_, path)| path.as_os_str().len())?;
        Some((exposed.clone(), if path.as_os_str().is_empty() { Path::new(".") } else { path }))
    }
}

/// What to carry out of a sandbox, or into one.
#[derive(Debug, Clone)]
pub struct TransferRequest {
    /// Absolute path inside, of a file or a folder.
    pub inside: String,
    /// A folder outside.
    pub outside: Arc<SafeDir>,
    /// Path there.
    pub name: String,
    /// What stays behind.
    pub exclude: Exclusions,
    /// Bounds on what is copied.
    pub bounds: TreeBounds,
}

/// A tree to copy into a sandbox.
#[derive(Debug, Clone)]
pub struct FillRequest {
    /// The tree; it is only read.
    pub tree: Arc<SafeDir>,
    /// Absolute path inside. `None`: the workspace.
    pub folder: Option<String>,
    /// What stays behind.
    pub exclude: Exclusions,
    /// Bounds on what is copied.
    pub bounds: TreeBounds,
}

/// Why nothing was carried.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// What is there cannot be copied. It depends on the error whose doing that was.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The machine failed, or the sandbox keeps nothing at such a path.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Reads a file of a place.
pub(crate) async fn read(
    exposed_folders: Vec<ExposedFolder>,
    path: String,
    cap: u64,
) -> Result<Option<Vec<u8>>, Fault> {
    let Some((exposed, inner)) = ExposedFolder::of(&exposed_folders, &path) else {
        return Err(not_kept(&path));
    };
    let inner = inner.to_owned();
    match blocking(move || exposed.folder.read_file(inner, cap)).await? {
        Ok(bytes) => Ok(Some(bytes)),
        Err(SafeReadError::Missing { .. }) => Ok(None),
        Err(error) if error.is_infrastructure() => {
            Err(Fault::transient(Boundary::Env, "unreadable", format!("{path}: {error}")))
        }
        Err(error) => Err(Fault::permanent(Boundary::Env, "unreadable", format!("{path}: {error}"))),
    }
}

/// Copies from a place to the outside.
pub(crate) async fn out(
    exposed_folders: Vec<ExposedFolder>,
    request: TransferRequest,
) -> Result<CopyReport, TransferError> {
    let Some((exposed, inner)) = ExposedFolder::of(&exposed_folders, &request.inside) else {
        return Err(not_kept(&request.inside).into());
    };
    let inner = inner.to_owned();
    let options = CopyOptions { bounds: request.bounds, ..CopyOptions::default() };
    let TransferRequest { outside, name, exclude, .. } = request;
    Ok(blocking(move || copy_part(&exposed.folder, inner, &outside, name, &exclude, options)).await??)
}

/// Copies from the outside to a place; what is there already is replaced.
pub(crate) async fn into(
    exposed_folders: Vec<ExposedFolder>,
    request: TransferRequest,
) -> Result<CopyReport, TransferError> {
    let Some((exposed, inner)) = ExposedFolder::of(&exposed_folders, &request.inside) else {
        return Err(not_kept(&request.inside).into());
    };
    let inner = inner.to_owned();
    let (size_limit, owner) = (exposed.size_limit(), exposed.owner);
    let options = CopyOptions { bounds: request.bounds, owner, existing: Existing::Replaced, size_limit };
    let TransferRequest { outside, name, exclude, .. } = request;
    Ok(blocking(move || copy_part(&outside, name, &exposed.folder, inner, &exclude, options)).await??)
}

/// Fills a place, or a folder of one. The workspace comes first among places, and its owner is the agent.
pub(crate) async fn fill(
    exposed_folders: Vec<ExposedFolder>,
    filling: FillRequest,
) -> Result<Result<CopyReport, TreeError>, Fault> {
    let FillRequest { tree, folder, exclude, bounds } = filling;
    let workspace = exposed_folders.first();
    let owner = workspace.and_then(|exposed| exposed.owner);
    let path = match (&folder, workspace) {
        (Some(folder), _) => folder.clone(),
        (None, Some(workspace)) => workspace.path.clone(),
        (None, None) => return Err(not_kept("the workspace")),
    };
    let (exposed, inner) = ExposedFolder::of(&exposed_folders, &path).ok_or_else(|| not_kept(&path))?;
    let inner = inner.to_owned();
    let options =
        CopyOptions { bounds, owner, existing: Existing::Replaced, size_limit: exposed.size_limit() };
    blocking(move || copy_part(&tree, Path::new("."), &exposed.folder, inner, &exclude, options)).await
}

fn not_kept(path: &str) -> Fault {
    let message = format!(
        "{path} is in no place that this sandbox keeps: the workspace, and with an image /home/agent, /tmp, /logs \
         and /dev/shm"
    );
    Fault::permanent(Boundary::Env, "not-kept", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_holds_a_path() {
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
