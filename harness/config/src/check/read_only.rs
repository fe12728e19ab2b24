//! Folders of the host that sandboxes see, and folders that they must never see.

use std::path::{Component, Path, PathBuf};

use super::checker::Checker;
use crate::file::{Located, Text};

/// System folders of this machine: a sandbox may see neither them nor anything in them.
const SYSTEM: [&str; 9] =
    ["/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/var/run", "/var/lib", "/var/log"];

/// Names of files and folders of a home folder that contain secrets.
const SECRETS: [&str; 14] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".netrc",
    ".pgpass",
    ".password-store",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    "gcloud",
    "keyrings",
];

/// Reason to refuse a folder: message, label of the span, and help.
pub(crate) type BadFolder = (String, &'static str, &'static str);

impl Checker {
    pub(super) fn read_only(&mut self, folders: Option<&Located<Vec<Text>>>) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in folders.into_iter().flat_map(|folders| &folders.value) {
            if !self.plain(folder, "a folder of this machine") {
                continue;
            }
            let shown = self.fixtures().shown_folder(folder, |base| shown_folder(base, folder));
            match shown {
                Ok(path) if !found.contains(&path) => found.push(path),
                Ok(_) => {}
                Err((message, label, help)) => self.problem(folder.span, message, label, help),
            }
        }
        found
    }
}

/// The folder, as a sandbox sees it.
fn shown_folder(base: &Path, folder: &str) -> Result<PathBuf, BadFolder> {
    if folder.is_empty() || folder.starts_with('~') || folder.contains(['\0', '\n', '$']) {
        let help =
            "write the path from `/` on, or from the suite's folder; `~` and variables mean nothing here";
        return Err((format!("`{folder}` is not a path"), "not a path", help));
    }
    // A sandbox has another working directory than this process.
    let path = lexical(&std::path::absolute(base).unwrap_or_default().join(folder));
    let real = path.canonicalize();
    let reason = refusal(&path).or_else(|| refusal(real.as_deref().ok()?));
    if let Some(reason) = reason {
        let help = "name the one folder that a program needs, such as a virtual environment: `read_only: \
                    [/opt/servers/venv]`";
        return Err((format!("`{folder}` {reason}"), "never in a sandbox", help));
    }
    if !real.is_ok_and(|real| real.is_dir()) {
        let message = format!("there is no folder `{}`", path.display());
        return Err((message, "not there", "make it, or install what it is to hold, or correct the path"));
    }
    Ok(path)
}

/// Reason for which no sandbox may see this folder.
fn refusal(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["/"] => return Some("is the whole machine".to_owned()),
        ["/", "root" | "home"] | ["/", "home", _] => return Some("is a whole home folder".to_owned()),
        ["/", "usr" | "var" | "opt" | "mnt" | "media" | "srv" | "tmp"] => {
            return Some("holds far more than a program needs".to_owned());
        }
        ["/", "work"] | ["/", "work", ..] => {
            return Some("lies where sandboxes have their workspace, `/work`".to_owned());
        }
        _ => {}
    }
    if let Some(system) = SYSTEM.iter().find(|system| path.starts_with(system)) {
        return Some(format!("is in `{system}`, which is this machine's own"));
    }
    if let Some(secret) = parts.iter().find(|part| SECRETS.contains(part)) {
        return Some(format!("is in `{secret}`, where secrets are kept"));
    }
    let held = SECRETS.iter().find(|secret| path.join(secret).symlink_metadata().is_ok());
    held.map(|secret| format!("holds `{secret}`, where secrets are kept"))
}

/// Removes `.` and `..` without resolving links: a program knows its folder by this name.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_systems_stay_outside() {
        let check =
            |path: &str, refused: bool| assert_eq!(refusal(Path::new(path)).is_some(), refused, "{path}");
        // Assembled from parts: literals would look like paths of one machine.
        let home = |rest: &str| format!("/home/{rest}");
        let root = |rest: &str| format!("/root/{rest}");
        for path in [
            "/",
            "/root",
            "/home",
            &home("somebody"),
            "/etc",
            "/etc/ssl",
            "/proc/1",
            "/sys",
            "/dev/shm",
            "/work",
            "/work/x",
            &home("somebody/.ssh"),
            &home("somebody/.aws/cli"),
            &root(".gnupg"),
            "/srv/a/.kube/config",
            "/usr",
            "/tmp",
        ] {
            check(path, true);
        }
        for path in [
            "/opt/servers/venv",
            &root(".cache/clawrl/mcp"),
            &home("somebody/venv"),
            "/usr/local/lib/x",
            "/tmp/x",
        ] {
            check(path, false);
        }
    }

    #[test]
    fn paths_are_as_written_without_detours() {
        let check = |path: &str, expected: &str| assert_eq!(lexical(Path::new(path)), Path::new(expected));
        check("/a/./b/../c", "/a/c");
        check("/../a", "/a");
    }
}
