//! Runs tests again without root.

#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// An unused user id.
const NORMAL_USER: u32 = 1_899_999_999;

/// If this process is root, runs the test of this name in a process of a normal user, with copies of these programs beside it;
/// returns whether it did. A normal user does not need this.
///
/// # Panics
/// If the test fails there, or does not exist.
pub fn again_as_normal_user(test: &str, programs: &[&Path]) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    // The build folder may be closed to other users, so all programs are copied to an open one.
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(folder.path());
    let copy = |from: &Path, name: &Path| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        open(&to);
        to
    };
    for program in programs {
        copy(program, Path::new(program.file_name().unwrap()));
    }
    let output = Command::new(copy(&std::env::current_exe().unwrap(), Path::new("tests")))
        .args([test, "--exact", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .uid(NORMAL_USER)
        .gid(NORMAL_USER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "as a normal user: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
