//! Finds task folders from the paths that the user names.

use std::fs;
use std::path::{Path, PathBuf};

use super::dataset::dataset;
use super::registry::registry;
use crate::findings::Findings;

/// A task folder, with the names that select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) folder: PathBuf,
    /// The name in a dataset or registry, or else the folder's own.
    pub(crate) name: String,
}

/// The task folders that a path stands for.
pub(crate) fn locate(path: &Path, findings: &mut Findings) -> Vec<Located> {
    let before = findings.count();
    if !findings.has(path) {
        if findings.count() == before {
            findings.refuse_path(
                path,
                "does not exist",
                "name a task folder, a folder of task folders, a dataset.toml or a registry.json",
            );
        }
        return Vec::new();
    }
    if path.is_dir() {
        return in_folder(path, findings);
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") if path.file_name().is_some_and(|name| name == "task.toml") => {
            path.parent().map(located).into_iter().collect()
        }
        Some("toml") => dataset(path, findings),
        Some("json") => registry(path, findings),
        _ => {
            findings.refuse_path(
                path,
                "is not a task folder, dataset or registry",
                "name a task folder, a folder of task folders, a dataset.toml or a registry.json",
            );
            Vec::new()
        }
    }
}

/// A folder under its own name.
pub(crate) fn located(folder: &Path) -> Located {
    let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Located { folder: folder.to_owned(), name }
}

fn in_folder(folder: &Path, findings: &mut Findings) -> Vec<Located> {
    let before = findings.count();
    if findings.has(&folder.join("task.toml")) {
        return vec![located(folder)];
    }
    if findings.count() > before {
        return Vec::new();
    }
    if folder.join("dataset.toml").is_file() {
        return dataset(&folder.join("dataset.toml"), findings);
    }
    if looks_like_a_task(folder) {
        refuse_without_file(folder, findings);
        return Vec::new();
    }
    let mut tasks = Vec::new();
    for below in findings.listing(folder) {
        if !below.is_dir() {
            continue;
        }
        if findings.has(&below.join("task.toml")) {
            tasks.push(located(&below));
        } else if looks_like_a_task(&below) {
            refuse_without_file(&below, findings);
        }
    }
    if tasks.is_empty() && findings.count() == before {
        let message = if folder.join("task.yaml").exists() {
            "is a task of Terminal-Bench"
        } else {
            "holds no task folders: none has a task.toml"
        };
        findings.refuse_path(
            folder,
            message,
            "name a folder with a task.toml, or `clawrl import terminal-bench` for one with a task.yaml",
        );
    }
    tasks
}

fn looks_like_a_task(folder: &Path) -> bool {
    folder.join("instruction.md").exists()
        || (folder.join("tests").is_dir() && folder.join("environment").is_dir())
}

fn refuse_without_file(folder: &Path, findings: &mut Findings) {
    findings.refuse_path(
        folder,
        "the task has no task.toml",
        "add one; `schema_version = \"1.4\"` alone will do",
    );
}
