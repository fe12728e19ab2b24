//! Probes the machine: whether bubblewrap is installed and may create namespaces, and which limits can be set.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clawrl_core::{Boundary, Fault};

use crate::CgroupHost;

/// Oldest bubblewrap that has `--disable-userns` and `--size`.
const MIN_VERSION: (u32, u32) = (0, 8);

/// Result of the probe.
#[derive(Debug, Clone)]
pub struct HostReport {
    /// Path of the bubblewrap program.
    pub program: PathBuf,
    /// Version, as bubblewrap prints it.
    pub version: String,
    /// Whether the harness runs as root, so that every sandbox gets its own user id.
    pub root: bool,
    /// Control groups.
    pub cgroups: CgroupHost,
    /// Limits that cannot be set on this machine, shown at the start of a run and kept in its record.
    pub unavailable: Vec<String>,
}

/// Looks for everything the backend needs, and creates the namespaces once to test them.
///
/// Blocks for some milliseconds.
///
/// # Errors
/// A permanent provider [`Fault`] (`bwrap-missing`, `bwrap-old`, `namespaces-forbidden`) that says how to fix it.
pub fn probe_host(cgroups: CgroupHost) -> Result<HostReport, Fault> {
    let program = find_program()?;
    let version = Command::new(&program).arg("--version").output();
    let version =
        version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if parse_version(&version).is_none_or(|found| found < MIN_VERSION) {
        let message = format!(
            "{} reports `{version}`, but --disable-userns needs at least {}.{}; install a newer bubblewrap",
            program.display(),
            MIN_VERSION.0,
            MIN_VERSION.1
        );
        return Err(Fault::permanent(Boundary::Provider, "bwrap-old", message));
    }
    try_namespaces(&program)?;
    let mut unavailable = cgroups.unavailable();
    if !cgroups.limits_memory() {
        unavailable.push("number of files in the workspace (bounded by the kernel's memory only)".to_owned());
    }
    let root = rustix::process::geteuid().is_root();
    if !root {
        unavailable.push("a host user of its own for each sandbox (needs root; all share yours)".to_owned());
    }
    Ok(HostReport { program, version, root, cgroups, unavailable })
}

fn find_program() -> Result<PathBuf, Fault> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin".into(), "/usr/local/bin".into()]);
    folders.map(|folder| folder.join("bwrap")).find(|path| path.is_file()).ok_or_else(|| {
        Fault::permanent(
            Boundary::Provider,
            "bwrap-missing",
            "bubblewrap (`bwrap`) is not installed; run `apt-get install bubblewrap`, or install your \
             system's package. `sandbox: none` in a suite runs without isolation",
        )
    })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().last()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Runs `true` in the namespaces of a sandbox; as root, with an unprivileged user.
fn try_namespaces(program: &std::path::Path) -> Result<(), Fault> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command.args([
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]);
    command.args([
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--",
        "/bin/true",
    ]);
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    if rustix::process::geteuid().is_root() {
        let nobody = 65_534;
        command.uid(nobody).gid(nobody);
    }
    let output = command.output().map_err(|error| {
        // The program exists, so switching to a normal user failed: this is a root user with a single user id.
        let message =
            format!("cannot run {} as a normal user: {error}; {}", program.display(), namespace_advice());
        Fault::permanent(Boundary::Provider, "namespaces-forbidden", message)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Fault::permanent(
        Boundary::Provider,
        "namespaces-forbidden",
        format!("{said}; {}", namespace_advice()),
    ))
}

/// How to allow namespaces, depending on the kernel's settings.
fn namespace_advice() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    if read("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return "this kernel forbids user namespaces to unprivileged users: `sysctl -w \
            kernel.unprivileged_userns_clone=1` allows them"
            .to_owned();
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return "AppArmor restricts user namespaces: add a profile that allows them to bwrap (Ubuntu: package \
                `apparmor-profiles`, profile `bwrap-userns-restrict`), or `sysctl -w \
                kernel.apparmor_restrict_unprivileged_userns=0`"
            .to_owned();
    }
    if read("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        return "user namespaces are disabled: `sysctl -w user.max_user_namespaces=65536` allows them"
            .to_owned();
    }
    "this machine does not allow bubblewrap to create user namespaces; in a container, allow them when \
     starting it (for Docker: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`)"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("bubblewrap 0.8.0"), Some((0, 8)));
        assert_eq!(parse_version("bubblewrap 0.11.0"), Some((0, 11)));
        assert_eq!(parse_version(""), None);
        assert!((0, 11) > MIN_VERSION && (0, 4) < MIN_VERSION);
    }
}
