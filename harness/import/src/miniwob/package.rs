//! The files of the package: its pages, the files that they load, and its licence.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_config::Problem;
use serde_json::{Value, json};

use super::options::{MiniwobOptions, MiniwobSource};
use crate::findings::Findings;
use crate::python::{PACKAGE, ask};
use crate::tree::Tree;

/// Folder of the pages, below `html`.
const PAGES: &str = "miniwob/";

/// The imported part of the package.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// By path below `html`.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) licence: Option<Vec<u8>>,
    /// The archive and its digest; `None` for a folder.
    pub(super) archive: Option<(String, String)>,
}

impl Package {
    /// Reads the package. `None` if it is refused; problems go to the findings.
    pub(super) fn read(options: &MiniwobOptions, findings: &mut Findings) -> Option<Self> {
        let package = match &options.source {
            MiniwobSource::Path(path) if path.is_dir() => Self::of_folder(path, findings)?,
            source => match Self::of_wheel(source, &options.python) {
                Ok(package) => package,
                Err(problem) => {
                    findings.adopt(&problem.into());
                    return None;
                }
            },
        };
        if package.families().next().is_none() {
            let help =
                "name a wheel of the package `miniwob`, or its folder with `html/miniwob/*.html` in it";
            findings.adopt(&Problem::new("there is no page of MiniWoB++", help).into());
            return None;
        }
        Some(package)
    }

    /// Names of the pages, sorted.
    pub(super) fn families(&self) -> impl Iterator<Item = &str> {
        self.files.keys().filter_map(|path| {
            path.strip_prefix(PAGES)?.strip_suffix(".html").filter(|name| !name.contains('/'))
        })
    }

    fn of_wheel(source: &MiniwobSource, python: &Path) -> Result<Self, Problem> {
        let (request, what) = match source {
            MiniwobSource::Index(version) => (
                json!({ "name": "miniwob", "version": version, "kind": "wheel" }),
                format!("miniwob {version}"),
            ),
            MiniwobSource::Path(path) => (json!({ "wheel": path }), path.display().to_string()),
        };
        let rows = ask(python, PACKAGE, &request)?;
        if let Some(reason) = rows.iter().find_map(|row| row["refused"].as_str()) {
            let help = "name another version, or a local wheel or folder with `--from`";
            return Err(Problem::new(format!("`{what}` is not available: {reason}"), help));
        }
        let text = |key: &str| rows.first().and_then(|row| row[key].as_str()).unwrap_or_default().to_owned();
        let mut package = Self { archive: Some((text("archive"), text("sha256"))), ..Self::default() };
        for (path, content) in rows.iter().filter_map(file) {
            if let Some(below) = path.strip_prefix("miniwob/html/") {
                package.files.insert(below.to_owned(), content);
            } else if path.contains(".dist-info/") && is_licence(path) {
                package.licence = Some(content);
            }
        }
        Ok(package)
    }

    fn of_folder(folder: &Path, findings: &mut Findings) -> Option<Self> {
        let ways = ["miniwob/html", "html", ""];
        let html = ways.iter().map(|way| folder.join(way)).find(|html| html.join("miniwob").is_dir());
        let html = html.unwrap_or_else(|| folder.to_owned());
        let before = findings.count();
        let tree = Tree::read(&html, findings);
        if findings.count() > before {
            return None;
        }
        let mut package = Self::default();
        for file in &tree.files {
            match fs::read(&file.from) {
                Ok(content) => drop(package.files.insert(file.path.clone(), content)),
                Err(cause) => {
                    let message = format!("cannot be read: {}", cause.kind());
                    findings.refuse_path(&file.from, message, "make it readable for this user");
                }
            }
        }
        package.licence = licence_near(&html);
        Some(package)
    }
}

/// The licence lies beside the package's folder, or above it.
fn licence_near(html: &Path) -> Option<Vec<u8>> {
    let above: Vec<&Path> = html.ancestors().take(3).collect();
    let information = above.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let information = information
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "dist-info"));
    let mut places: Vec<PathBuf> = above.iter().map(|folder| folder.to_path_buf()).collect();
    places.extend(information.flat_map(|folder| [folder.join("licenses"), folder]));
    places.iter().find_map(|folder| fs::read(folder.join("LICENSE")).ok())
}

fn is_licence(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name == "LICENSE")
}

fn file(row: &Value) -> Option<(&str, Vec<u8>)> {
    Some((row["path"].as_str()?, STANDARD.decode(row["content"].as_str()?).ok()?))
}
