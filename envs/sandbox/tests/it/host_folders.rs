//! Folders of the host that a sandbox sees: at the same path, and never to write to.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clawrl_core::Retry;
use clawrl_sandbox::{SandboxBackend, SandboxSpec};

use crate::support::{as_normal_user_too, sh, text, waiting, with_backend};

/// A folder with a program, a link and a folder that everybody may read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    std::fs::write(folder.path().join("tool"), "#!/bin/sh\necho ran\n").unwrap();
    std::os::unix::fs::symlink("/etc/shadow", folder.path().join("link")).unwrap();
    for path in [folder.path().to_owned(), folder.path().join("inner"), folder.path().join("tool")] {
        open(&path);
    }
    folder
}

fn showing(folder: &Path) -> SandboxSpec {
    SandboxSpec { read_only: vec![folder.to_owned()], ..waiting("shown") }
}

#[test]
fn folder_is_readable_executable_not_writable() {
    as_normal_user_too("host_folders::folder_is_readable_executable_not_writable", || {
        with_backend("shown", |backend| async move {
            let folder = folder();
            let started = backend.start(showing(folder.path())).await.unwrap();
            let place = folder.path().display();
            for (script, expected) in [
                (format!("{place}/tool"), "ran"),
                (format!("cd {place} && ls"), "inner\nlink\ntool"),
                (format!("cat {place}/link 2>/dev/null || echo nothing"), "nothing"),
                (format!("echo x 2>/dev/null > {place}/new || echo refused"), "refused"),
                (format!("echo x 2>/dev/null > {place}/tool || echo refused"), "refused"),
                (format!("rm -rf {place}/inner 2>/dev/null || echo refused"), "refused"),
                (format!("chmod 0 {place}/tool 2>/dev/null || echo refused"), "refused"),
                (format!("touch {place}/inner/x 2>/dev/null || echo refused"), "refused"),
                (format!("mount -o remount,rw {place} 2>/dev/null || echo refused"), "refused"),
                (format!("mv {place} /tmp/elsewhere 2>/dev/null || echo refused"), "refused"),
            ] {
                let said = text(&sh(started.sandbox.as_ref(), &script).await);
                assert_eq!(said.trim_end(), expected, "{script}");
            }
            started.sandbox.kill().await.unwrap();
            let names = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!((names, std::fs::metadata(folder.path().join("tool")).unwrap().len()), (3, 19));
        });
    });
}

#[test]
fn inaccessible_folder_is_refused_by_name() {
    with_backend("unseen", |backend| async move {
        for (path, code) in [("/no/such/folder", "read-only-missing"), ("/work", "read-only-place")] {
            let fault = backend.start(showing(&PathBuf::from(path))).await.err().unwrap();
            assert_eq!((fault.code.as_str(), fault.retry), (code, Retry::Never), "{}", fault.message);
        }
    });
}
