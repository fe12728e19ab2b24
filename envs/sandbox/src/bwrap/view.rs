//! How an image is mounted read-only while other things are mounted over it.
//!
//! A folder of the image is one mount. A folder is split into its entries only if it lacks a mount point, because a
//! mount point cannot be created in a read-only mount, and is never created in the image itself.

use std::path::{Path, PathBuf};

use clawrl_core::{Boundary, Fault};

use super::image::{Image, OWN_ENTRIES, link_target, names};
use crate::FileKind;

/// Maximum mounts of one sandbox. More would take seconds; adding the missing folder to the image avoids them.
const MAX_MOUNTS: usize = 1024;

/// A path that is mounted over an image.
#[derive(Debug, Clone)]
pub(super) struct MountPoint {
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
}

/// The arguments that mount an image, and which mount points it already contains.
pub(super) struct View {
    pub(super) arguments: Vec<String>,
    /// In the order of the mount points.
    pub(super) present: Vec<bool>,
}

/// Plans the mounts of an image below these mount points.
pub(super) fn view(image: &Image, points: &[MountPoint]) -> Result<View, Fault> {
    let present: Vec<bool> = points.iter().map(|point| is_there(image, point)).collect();
    let absent = points.iter().zip(&present).filter(|(_, present)| !**present);
    let absent: Vec<&Path> = absent.map(|(point, _)| point.path.as_path()).collect();
    let mut arguments = Vec::new();
    take_apart(image, Path::new("/"), &absent, &mut arguments)?;
    Ok(View { arguments, present })
}

/// Whether the mount point exists with the right kind, and all folders above it are real folders.
fn is_there(image: &Image, point: &MountPoint) -> bool {
    let own = point
        .path
        .components()
        .nth(1)
        .is_some_and(|name| OWN_ENTRIES.iter().any(|own| name.as_os_str() == *own));
    !own && image.kind(&point.path) == Some(point.kind)
}

fn take_apart(
    image: &Image,
    folder: &Path,
    absent: &[&Path],
    arguments: &mut Vec<String>,
) -> Result<(), Fault> {
    for name in names(image, folder)? {
        if folder == Path::new("/") && OWN_ENTRIES.contains(&name.as_str()) {
            continue;
        }
        let path = folder.join(&name);
        // The mount replaces it.
        if absent.contains(&path.as_path()) {
            continue;
        }
        let inside = path.to_string_lossy().into_owned();
        let outside = image.folder.join(inside.trim_start_matches('/')).to_string_lossy().into_owned();
        let holds_absent = absent.iter().any(|point| point.starts_with(&path));
        match image.kind(&path) {
            Some(FileKind::Folder) if holds_absent => {
                arguments.extend(["--dir".to_owned(), inside]);
                take_apart(image, &path, absent, arguments)?;
            }
            // The path to a mount point must consist of folders.
            _ if holds_absent => {}
            Some(FileKind::Folder | FileKind::Regular) => {
                arguments.extend(["--ro-bind".to_owned(), outside, inside]);
            }
            Some(FileKind::Symlink) => {
                if let Some(target) = link_target(image, &path) {
                    arguments.extend(["--symlink".to_owned(), target, inside]);
                }
            }
            // Devices cannot be opened in a sandbox; FIFOs and sockets were refused before.
            _ => {}
        }
        if arguments.len() > 3 * MAX_MOUNTS {
            let message = format!(
                "the image {}: {} has too many entries to add {}: create that folder in the image, or choose \
                 another `workdir`",
                image.folder.display(),
                folder.display(),
                absent.iter().find(|point| point.starts_with(folder)).unwrap_or(&folder).display()
            );
            return Err(Fault::permanent(Boundary::Provider, "image-workdir", message));
        }
    }
    Ok(())
}
