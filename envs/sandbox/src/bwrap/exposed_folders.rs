//! The folders of a running sandbox that can be reached from outside, and the workspace's initial content.

use std::path::Path;
use std::sync::Arc;

use clawrl_core::{Boundary, Fault};

use super::arguments::MountContext;
use super::image::{Image, copy_fault};
use crate::safe_dir::{Owner, SafeDir};
use crate::tree::{CopyOptions, SizeLimit, SkipReason, TreeBounds, copy_tree};
use crate::{ExposedFolder, SandboxSpec};

/// Opens the exposed folders, the workspace first. The others are opened only for an image or extra folders, because
/// each costs a descriptor.
pub(super) fn of(
    first_process: u32,
    spec: &SandboxSpec,
    ground: MountContext<'_>,
    owner: Option<Owner>,
) -> Result<Vec<ExposedFolder>, Fault> {
    let scratch = if ground.image.is_some() { ground.scratch() } else { &[] };
    let own = |path: &str| !ground.has_room_for(path);
    let folders = spec.folders.iter().filter(|folder| folder.files.is_none() && own(&folder.path));
    let folders = folders.map(|folder| folder.path.as_str());
    let paths = [ground.workspace()].into_iter().chain(scratch.iter().copied()).chain(folders);
    paths
        .map(|path| {
            let outside = format!("/proc/{first_process}/root{path}");
            let folder = SafeDir::open(Path::new(&outside)).map_err(|error| {
                let message = format!("cannot open {path} of the sandbox: {error}");
                Fault::transient(Boundary::Provider, "sandbox-start", message)
            })?;
            Ok(ExposedFolder { path: path.to_owned(), folder: Arc::new(folder), owner, is_bounded: true })
        })
        .collect()
}

/// Copies the image's content at the workspace's path into the workspace. Blocks.
pub(super) fn begin(exposed_folders: &[ExposedFolder], image: &Image, disk_mib: u32) -> Result<(), Fault> {
    let (Some(workspace), Some(content)) = (exposed_folders.first(), &image.content) else { return Ok(()) };
    let bounds = TreeBounds { bytes: u64::from(disk_mib) << 20, ..TreeBounds::default() };
    let options = CopyOptions {
        bounds,
        owner: workspace.owner,
        size_limit: SizeLimit::Bounded,
        ..CopyOptions::default()
    };
    let report = copy_tree(content, &workspace.folder, options)
        .map_err(|error| copy_fault(image, disk_mib, &error))?;
    let Some(first) = report.skipped.named().first() else { return Ok(()) };
    let why = match first.reason {
        SkipReason::Special(kind) => format!("is {kind}, which a workspace cannot contain at its start"),
        SkipReason::Unreadable => "cannot be read by this user".to_owned(),
    };
    let (folder, inside, path) = (image.folder.display(), &image.workdir, first.path.display());
    let message =
        format!("the image {folder}: {inside}/{path} {why}: remove it, or choose another `workdir`");
    Err(Fault::permanent(Boundary::Provider, "image-workdir", message))
}
