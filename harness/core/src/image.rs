//! Images and verifiers: the root file system of a task, and the program that grades it instead of
//! checks.
//!
//! Paths on the host are absolute, so reading a plan again needs no suite file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FixtureFile, NetworkPolicy};

/// A root file system, and how the agent finds itself in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageSpec {
    /// Source of the image.
    pub source: ImageSource,
    /// Absolute path inside of the folder that the agent works in. Without one: the image's own for a
    /// container, [`ImageSpec::DEFAULT_WORKDIR`] for a root file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The agent's user, for containers. Without one: the image's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl ImageSpec {
    /// The workspace of a sandbox on an unpacked root file system that names none.
    pub const DEFAULT_WORKDIR: &str = "/work";
}

/// Source of a root file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageSource {
    /// An image that the container engine knows, or finds where it is set to look.
    Name(String),
    /// A folder with a Dockerfile.
    Build {
        /// Absolute path of the folder.
        context: PathBuf,
        /// The Dockerfile, relative to the folder.
        dockerfile: String,
        /// A build that takes longer is a fault.
        timeout: Duration,
    },
    /// Absolute path of a folder with an unpacked root file system.
    Rootfs(PathBuf),
}

/// A program that grades an attempt once the agent is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifierSpec {
    /// Laid into `/tests`. Paths are relative to it.
    pub files: Vec<FixtureFile>,
    /// Run by the image's shell in the workspace.
    pub run: String,
    /// Variables beyond the sandbox's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The user, for containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A verifier that takes longer is a fault.
    pub timeout: Duration,
    /// Network of the verifier.
    pub network: NetworkPolicy,
    /// Where the verifier writes the score.
    pub reward: RewardSource,
    /// With [`RewardSource::Files`]: which key of `reward.json` is the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_key: Option<String>,
    /// An environment apart from the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<VerifierApart>,
}

/// Where a verifier writes the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardSource {
    /// `/logs/verifier/reward.json`, a number or a map with `reward` or with one number alone; without it,
    /// `/logs/verifier/reward.txt`.
    #[default]
    Files,
    /// The exit code: 0 is a score of 1, anything else of 0.
    ExitCode,
    /// The lines of pytest's short summary in its output: all must pass.
    Pytest,
}

/// A verifier's environment apart from the agent's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifierApart {
    /// Image of the verifier. Default: the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSpec>,
    /// Files to copy from the agent's sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactSpec>,
    /// Commands in the agent's sandbox before it is ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collect: Vec<CollectSpec>,
}

/// A file or folder that the verifier gets from the agent's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactSpec {
    /// Absolute path in the agent's environment.
    pub source: String,
    /// Absolute path in the verifier's. Without one: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Patterns of names that stay behind: `*` and `?` within a name, matched against each name under the source
    /// and against its path from there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// A command that readies artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectSpec {
    /// Run by the shell in the agent's environment.
    pub run: String,
    /// Time limit. A timeout or a failure is flagged, and the verifier still grades the files that exist.
    pub timeout: Duration,
}

/// The reason for which a folder cannot be a workspace, as the end of a sentence; `None` if it can.
///
/// The workspace is mounted over the image's folder, so system folders are refused, and folders that
/// every sandbox mounts itself.
#[must_use]
pub fn workdir_problem(path: &str) -> Option<String> {
    const SYSTEM: &[&str] = &[
        "/bin",
        "/boot",
        "/etc",
        "/home",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/run",
        "/sbin",
        "/usr",
        "/usr/bin",
        "/usr/lib",
        "/usr/lib64",
        "/usr/libexec",
        "/usr/sbin",
        "/var",
    ];
    const TAKEN: &[&str] = &["/dev", "/home/agent", "/logs", "/proc", "/solution", "/sys", "/tests", "/tmp"];
    if let Some(problem) = absolute_problem(path) {
        return Some(problem);
    }
    if path == "/" {
        return Some("is the whole image".to_owned());
    }
    if SYSTEM.contains(&path) {
        return Some("holds what programs need to run".to_owned());
    }
    let taken = TAKEN.iter().find(|&&taken| path == taken || path.starts_with(&format!("{taken}/")));
    taken.map(|taken| format!("lies in {taken}, which every sandbox has for itself"))
}

/// The reason for which a text is not a plain absolute path inside a sandbox, as the end of a sentence; `None` if it is one.
#[must_use]
pub fn absolute_problem(path: &str) -> Option<String> {
    let Some(relative) = path.strip_prefix('/') else { return Some("does not begin with `/`".to_owned()) };
    if path == "/" {
        return None;
    }
    if path.contains('\0') {
        return Some("holds a character that no path can hold".to_owned());
    }
    relative.split('/').find_map(|name| match name {
        "" => Some("has an empty part: a doubled `/`, or one at its end".to_owned()),
        "." | ".." => Some(format!("has a part `{name}`")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_stay_out_of_the_system() {
        let check = |path: &str, good: bool| assert_eq!(workdir_problem(path).is_none(), good, "{path}");
        for path in ["/work", "/app", "/root", "/srv/a/b", "/usr/src/app", "/testsuite", "/opt"] {
            check(path, true);
        }
        for path in ["", "app", "/", "//", "/app/", "/a//b", "/a/../b", "/./a", "/etc", "/usr/bin", "/a\0b"] {
            check(path, false);
        }
        for path in
            ["/tmp", "/tmp/x", "/proc/1", "/dev/shm", "/tests", "/logs/verifier", "/sys", "/home/agent/x"]
        {
            check(path, false);
        }
    }
}
