//! `dataset.toml`: names and digests of tasks in the same folder.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_core::hex;
use sha2::{Digest, Sha256};

use super::digest::digest;
use super::locate::Located;
use crate::document::{Document, Section};
use crate::findings::Findings;
use crate::keys::{KeyRow, ignored, sort_keys, taken};

/// How each key is imported.
const KEYS: &[KeyRow] = &[
    ignored("schema_version", "tasks have their own"),
    ignored("dataset", "for people and catalogues"),
    ignored("metadata", "for people and catalogues"),
    taken("tasks.name", "a folder of that name beside the file, or in `tasks` beside it"),
    taken("tasks.digest", "compared with the folder"),
    taken("files.path", "compared with its digest; metrics are not run"),
    taken("files.digest", "compared with the file"),
];

/// The task folders of a dataset.
pub(super) fn dataset(path: &Path, findings: &mut Findings) -> Vec<Located> {
    let document = match Document::toml(path) {
        Ok(document) => document,
        Err(error) => {
            findings.adopt(&error);
            return Vec::new();
        }
    };
    sort_keys(&document, KEYS, findings);
    let root = document.section();
    if !root.has("tasks") {
        findings.refuse_path(
            path,
            "the dataset names no tasks",
            "add `[[tasks]]` with `name = \"org/name\"`",
        );
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    for file in root.each("files") {
        check_file(&file, folder, findings);
    }
    root.each("tasks").iter().filter_map(|task| find(task, folder, findings)).collect()
}

fn find(task: &Section<'_>, folder: &Path, findings: &mut Findings) -> Option<Located> {
    let Some(name) = task.text("name", findings) else {
        if !task.has("name") {
            task.refuse("name", findings, "a task of the dataset has no name", "add `name = \"org/name\"`");
        }
        return None;
    };
    let short = name.value.rsplit('/').next().unwrap_or_default();
    if short.is_empty() || short == "." || short == ".." {
        task.refuse("name", findings, format!("`{}` is not a task name", name.value), "write `org/name`");
        return None;
    }
    let places: [PathBuf; 3] =
        [folder.join(short), folder.join("tasks").join(short), folder.join(&name.value)];
    let Some(found) = places.iter().find(|place| place.join("task.toml").is_file()) else {
        let message = format!("the task `{}` is missing", name.value);
        let help = format!("download it with Harbor and put it beside the dataset, as `{short}`");
        task.refuse("name", findings, message, help);
        return None;
    };
    if let Some(wanted) = task.text("digest", findings).filter(|wanted| !wanted.value.is_empty()) {
        match digest(found) {
            Some(hex) if wanted.value == format!("sha256:{hex}") => {}
            Some(hex) => {
                let message =
                    format!("the digest of the task `{}` is sha256:{hex}, not the dataset's", name.value);
                task.refuse("digest", findings, message, "download the task again, or correct the digest");
            }
            None => findings.note(format!(
                "the digest of `{}` is not compared: the folder has its own ignore rules",
                name.value
            )),
        }
    }
    Some(Located { folder: found.clone(), name: name.value })
}

fn check_file(file: &Section<'_>, folder: &Path, findings: &mut Findings) {
    let Some(path) = file.text("path", findings) else { return };
    let Some(wanted) = file.text("digest", findings).filter(|wanted| !wanted.value.is_empty()) else {
        return;
    };
    if path.value.contains('/') {
        let message = format!("`{}` is not a plain file name", path.value);
        file.refuse("path", findings, message, "files of a dataset are in its folder");
        return;
    }
    let found = fs::read(folder.join(&path.value))
        .ok()
        .map(|bytes| format!("sha256:{}", hex(&Sha256::digest(bytes))));
    if found.as_deref() != Some(wanted.value.as_str()) {
        let message = format!("the digest of `{}` is not the dataset's", path.value);
        file.refuse("digest", findings, message, "download it again, or correct the digest");
    }
}
