//! Checks host folders before they are mounted into a sandbox, because bubblewrap's own error messages do not say how
//! to fix the problem.
//!
//! The check only improves messages. The kernel enforces access when bubblewrap mounts the folder as the sandbox's
//! user. The check therefore asks the kernel as that user, too, so that access control lists and other features of the
//! file system count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clawrl_core::{Boundary, Fault};
use rustix::fs::Access;
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Refuses a folder that does not exist, overlaps the workspace, or is not accessible to the sandbox's user: `user`, or
/// the current user. Blocks.
///
/// # Errors
/// A permanent provider [`Fault`] that says how to fix it.
pub(super) fn examine(folder: &Path, workspace: &str, user: Option<u32>) -> Result<(), Fault> {
    let shown = folder.display();
    let refused = |code: &'static str, message: String| {
        Err(Fault::permanent(Boundary::Provider, code, format!("`read_only`: {message}")))
    };
    if folder.starts_with(workspace) || Path::new(workspace).starts_with(folder) {
        let message = format!("{shown} overlaps the workspace, {workspace}: move the folder elsewhere");
        return refused("read-only-place", message);
    }
    let is_folder = fs::metadata(folder).is_ok_and(|found| found.is_dir());
    if !is_folder {
        let message =
            format!("the folder {shown} does not exist on this machine: create it, or correct the path");
        return refused("read-only-missing", message);
    }
    let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let closed = match user {
        None => closed_place(&real),
        // If this fails, the sandbox's start fails as well, with a better message.
        Some(user) => as_user(user, || closed_place(&real)).unwrap_or(None),
    };
    let Some(place) = closed else { return Ok(()) };
    let letters = match (user, place == real) {
        (None, true) => "u+rx",
        (None, false) => "u+x",
        (Some(_), true) => "o+rx",
        (Some(_), false) => "o+x",
    };
    let place = place.display();
    let message = format!(
        "sandboxes cannot see {shown}, because {place} is closed to their user: `chmod {letters} {place}`, or move the \
         folder to an open place"
    );
    refused("read-only-closed", message)
}

/// The uppermost folder on the path that this thread's user may not enter, or the folder itself if it may not be
/// listed.
fn closed_place(real: &Path) -> Option<PathBuf> {
    let may = |place: &Path, access| rustix::fs::access(place, access).is_ok();
    let mut above: Vec<&Path> = real.ancestors().skip(1).collect();
    above.reverse();
    let closed = above.into_iter().find(|place| !may(place, Access::EXEC_OK));
    let closed = closed.or_else(|| (!may(real, Access::READ_OK | Access::EXEC_OK)).then_some(real));
    closed.map(Path::to_owned)
}

/// Runs `ask` as the given user without supplementary groups, as sandboxes run. Uses its own thread, which cannot
/// switch back.
fn as_user<T: Send>(user: u32, ask: impl FnOnce() -> T + Send) -> io::Result<T> {
    let become_and_ask = || {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(ask())
    };
    std::thread::scope(|scope| match scope.spawn(become_and_ask).join() {
        Ok(asked) => asked,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::XattrFlags;
    use rustix::io::Errno;

    use super::*;

    const USER: u32 = 1_899_999_990;

    fn open(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn check(folder: &Path, user: Option<u32>, expected: Option<&str>) {
        let found = examine(folder, "/work", user).map_err(|fault| fault.code);
        assert_eq!(found.as_ref().err().map(|code| &**code), expected, "{}", folder.display());
    }

    #[test]
    fn inaccessible_folder_is_refused_before_start() {
        let base = tempfile::tempdir().unwrap();
        open(base.path(), 0o755);
        let (inner, file) = (base.path().join("in"), base.path().join("file"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(&file, "").unwrap();
        for user in [None, Some(USER)] {
            check(&inner, user, None);
            check(&file, user, Some("read-only-missing"));
            check(&base.path().join("none"), user, Some("read-only-missing"));
            check(Path::new("/work/x"), user, Some("read-only-place"));
            check(Path::new("/"), user, Some("read-only-place"));
        }
    }

    /// Only root can check access as another user.
    #[test]
    fn the_kernel_is_asked_as_the_user_of_sandboxes() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        open(base.path(), 0o755);
        let closed = base.path().join("closed");
        let inner = closed.join("in");
        fs::create_dir_all(&inner).unwrap();
        // Root's groups do not apply to sandboxes.
        open(&closed, 0o770);
        check(&inner, None, None);
        check(&closed, Some(USER), Some("read-only-closed"));
        let fault = examine(&inner, "/work", Some(USER)).unwrap_err();
        assert!(fault.message.contains(&format!("`chmod o+x {}`", closed.display())), "{}", fault.message);
        open(&closed, 0o711);
        check(&inner, Some(USER), None);
        check(&closed, Some(USER), Some("read-only-closed"));
        open(&closed, 0o700);
        if allow_by_list(&closed) {
            check(&closed, Some(USER), None);
            check(&inner, Some(USER), None);
            check(&closed, Some(USER + 1), Some("read-only-closed"));
        }
    }

    /// Grants that user access by an access control list; false if the file system has none.
    fn allow_by_list(folder: &Path) -> bool {
        let entry = |tag: u16, bits: u16, id: u32| {
            [tag.to_le_bytes().as_slice(), &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let any = u32::MAX;
        // The owner, that user, the owning group, the mask, all others.
        let entries =
            [entry(1, 7, any), entry(2, 5, USER), entry(4, 0, any), entry(16, 5, any), entry(32, 0, any)];
        let list = [2u32.to_le_bytes().to_vec(), entries.concat()].concat();
        match rustix::fs::setxattr(folder, "system.posix_acl_access", &list, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => false,
            set => {
                set.unwrap();
                true
            }
        }
    }
}
