//! `registry.json`: datasets, and their tasks by path.

use std::path::Path;

use clawrl_config::{Node, NodeValue};

use super::locate::Located;
use crate::document::Document;
use crate::findings::Findings;

/// The task folders of a registry. A task in another repository is refused unless its path exists here.
pub(super) fn registry(path: &Path, findings: &mut Findings) -> Vec<Located> {
    let document = match Document::yaml(path) {
        Ok(document) => document,
        Err(error) => {
            findings.adopt(&error);
            return Vec::new();
        }
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let datasets = match &document.root.value {
        NodeValue::List(datasets) => datasets.iter().collect(),
        NodeValue::Map(_) => match document.root.get("datasets").map(|node| &node.value) {
            Some(NodeValue::List(datasets)) => datasets.iter().collect(),
            _ => vec![&document.root],
        },
        _ => Vec::new(),
    };
    let mut tasks = Vec::new();
    for dataset in &datasets {
        if let Some(NodeValue::List(entries)) = dataset.get("tasks").map(|node| &node.value) {
            tasks.extend(entries.iter().filter_map(|entry| find(entry, folder, &document, findings)));
        }
        if dataset.get("metrics").is_some_and(|metrics| metrics.value != NodeValue::List(Vec::new())) {
            findings.note("`metrics` is left out: reports count attempts that passed");
        }
    }
    if tasks.is_empty() && findings.count() == 0 {
        findings.refuse_path(
            path,
            "the registry names no tasks",
            "write `[{\"name\": ..., \"tasks\": [{\"name\": ..., \"path\": ...}]}]`",
        );
    }
    tasks
}

fn find(entry: &Node, folder: &Path, document: &Document, findings: &mut Findings) -> Option<Located> {
    let text = |key: &str| match entry.get(key).map(|node| &node.value) {
        Some(NodeValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let span = entry.get("path").map_or(entry.span, |node| node.span);
    let Some(path) = text("path") else {
        findings.refuse(
            &document.source,
            span,
            "no path",
            "a task of the registry has no path",
            "add `\"path\": \"folder\"`",
        );
        return None;
    };
    let name = text("name").unwrap_or_else(|| path.rsplit('/').next().unwrap_or(&path).to_owned());
    let found = folder.join(&path);
    if found.join("task.toml").is_file() {
        return Some(Located { folder: found, name });
    }
    match (text("git_url"), entry.get("git_url")) {
        (Some(url), Some(node)) => {
            let message = format!("the task `{name}` is in the repository `{url}`");
            let help =
                format!("nothing is downloaded here: clone it, so that `{path}` is beside the registry");
            findings.refuse(&document.source, node.span, "elsewhere", message, help);
        }
        _ => {
            let message = format!("there is no task folder `{path}`");
            findings.refuse(
                &document.source,
                span,
                "not here",
                message,
                "correct the path: it is relative to the registry's folder",
            );
        }
    }
    None
}
