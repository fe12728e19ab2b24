//! Folders of the host that a sandbox sees, looked at before it starts: bubblewrap's own words name no way out.
//!
//! The look is for people. What keeps a sandbox from a folder is the kernel, which bubblewrap asks as the sandbox's user.

use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clawrl_core::{Boundary, Fault};
use rustix::fs::Access;

/// Everybody may enter.
const ENTER: u32 = 0o001;

/// Everybody may enter and list.
const ENTER_AND_LIST: u32 = 0o005;

/// Refuses a folder that is not there, lies over the workspace, or is closed to the sandbox's user. Blocks.
///
/// # Errors
/// A permanent provider [`Fault`] that says what to do.
pub(super) fn examine(folder: &Path, workspace: &str, as_root: bool) -> Result<(), Fault> {
    let shown = folder.display();
    let refused = |code: &'static str, message: String| {
        Err(Fault::permanent(Boundary::Provider, code, format!("`read_only`: {message}")))
    };
    if folder.starts_with(workspace) || Path::new(workspace).starts_with(folder) {
        let message = format!("{shown} would lie over the workspace, {workspace}: move the folder elsewhere");
        return refused("read-only-place", message);
    }
    let is_folder = fs::metadata(folder).is_ok_and(|found| found.is_dir());
    if !is_folder {
        let message = format!(
            "there is no folder {shown} on this machine: install what it is to hold, or correct the path"
        );
        return refused("read-only-missing", message);
    }
    if !as_root {
        return match rustix::fs::access(folder, Access::READ_OK | Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(_) => refused("read-only-closed", format!("you cannot read {shown}: `chmod u+rx` it")),
        };
    }
    // A sandbox has a user of its own, who is nobody's: what counts is what everybody may.
    let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let closed = real.ancestors().find(|&place| {
        let wanted = if place == real { ENTER_AND_LIST } else { ENTER };
        fs::metadata(place)
            .map(|found: Metadata| found.permissions().mode() & wanted != wanted)
            .unwrap_or(true)
    });
    match closed {
        None => Ok(()),
        Some(place) => {
            let (place, letters) = (place.display(), if place == real { "o+rx" } else { "o+x" });
            let message = format!(
                "sandboxes cannot see {shown}, because {place} is closed to their user: `chmod {letters} {place}`, or \
                 move the folder to an open place"
            );
            refused("read-only-closed", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_told_beforehand() {
        let base = tempfile::tempdir().unwrap();
        let open =
            |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(base.path(), 0o755);
        let (closed, inner, listed) =
            (base.path().join("closed"), base.path().join("closed/in"), base.path().join("file"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(&listed, "").unwrap();
        let check = |folder: &Path, as_root: bool, expected: Option<&str>| {
            let found = examine(folder, "/work", as_root).map_err(|fault| fault.code);
            assert_eq!(found.as_ref().err().map(|code| &**code), expected, "{}", folder.display());
        };
        open(&closed, 0o700);
        check(&inner, true, Some("read-only-closed"));
        check(&closed, true, Some("read-only-closed"));
        check(&inner, false, None);
        open(&closed, 0o711);
        check(&inner, true, None);
        check(&closed, true, Some("read-only-closed"));
        check(&listed, true, Some("read-only-missing"));
        check(&base.path().join("none"), true, Some("read-only-missing"));
        check(Path::new("/work/x"), true, Some("read-only-place"));
        check(Path::new("/"), true, Some("read-only-place"));
    }
}
