//! `dataset.toml`: tasks by name and digest, which lie beside it.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::digest::{digest, hex};
use super::locate::Located;
use crate::document::{Document, Section};
use crate::findings::Findings;
use crate::keys::{KeyRow, ignored, sort_keys, taken};

/// What becomes of each key.
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
        task.refuse("name", findings, format!("`{}` is no name of a task", name.value), "write `org/name`");
        return None;
    }
    let places: [PathBuf; 3] =
        [folder.join(short), folder.join("tasks").join(short), folder.join(&name.value)];
    let Some(found) = places.iter().find(|place| place.join("task.toml").is_file()) else {
        let message = format!("the task `{}` is not here", name.value);
        let help = format!(
            "fetch it with Harbor and put it beside the dataset, as `{short}`; nothing is downloaded here"
        );
        task.refuse("name", findings, message, help);
        return None;
    };
    if let Some(wanted) = task.text("digest", findings).filter(|wanted| !wanted.value.is_empty()) {
        match digest(found) {
            Some(hex) if wanted.value == format!("sha256:{hex}") => {}
            Some(hex) => {
                let message = format!(
                    "the task `{}` is not the one that the dataset names: its digest is sha256:{hex}",
                    name.value
                );
                task.refuse("digest", findings, message, "fetch the task again, or correct the digest");
            }
            None => findings.note(format!(
                "the digest of `{}` is not compared: the folder has rules for leaving files out",
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
        let message = format!("`{}` is no plain file name", path.value);
        file.refuse("path", findings, message, "files of a dataset lie beside it");
        return;
    }
    let found = fs::read(folder.join(&path.value))
        .ok()
        .map(|bytes| format!("sha256:{}", hex(&Sha256::digest(bytes))));
    if found.as_deref() != Some(wanted.value.as_str()) {
        let message = format!("`{}` is not the file that the dataset names", path.value);
        file.refuse("digest", findings, message, "fetch it again, or correct the digest");
    }
}
