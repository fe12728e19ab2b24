//! Finds task folders from the paths that the user names.

use std::path::{Path, PathBuf};

use crate::findings::Findings;
use crate::harbor::{Located, located};

/// The task folders that a path stands for.
pub(crate) fn locate(path: &Path, findings: &mut Findings) -> Vec<Located> {
    if path.file_name().is_some_and(|name| name == "task.yaml") && path.is_file() {
        return path.parent().map(located).into_iter().collect();
    }
    if path.is_file() {
        let help = "name the folder of its tasks; nothing is downloaded here";
        findings.refuse_path(path, "registries of Terminal-Bench list repositories, not folders", help);
        return Vec::new();
    }
    let before = findings.count();
    if !findings.has(path) {
        if findings.count() == before {
            findings.refuse_path(
                path,
                "does not exist",
                "name a folder with a task.yaml, or a folder of such folders",
            );
        }
        return Vec::new();
    }
    if findings.has(&path.join("task.yaml")) {
        return vec![located(path)];
    }
    if findings.count() > before {
        return Vec::new();
    }
    if path.join("run-tests.sh").exists() {
        findings.refuse_path(
            path,
            "the task has no task.yaml",
            "add it, with `instruction` and `parser_name: pytest`",
        );
        return Vec::new();
    }
    let mut folders: Vec<PathBuf> = findings.listing(path);
    folders.retain(|folder| folder.is_dir() && findings.has(&folder.join("task.yaml")));
    if folders.is_empty() && findings.count() == before {
        let message = if path.join("task.toml").exists() {
            "is a task of Harbor"
        } else {
            "holds no tasks: no folder in it has a task.yaml"
        };
        findings.refuse_path(
            path,
            message,
            "name a folder with a task.yaml, or `clawrl import harbor` for one with a task.toml",
        );
    }
    folders.iter().map(|folder| located(folder)).collect()
}
