//! A source distribution: the files that are kept, and which of them are code of the package.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_config::Problem;
use serde_json::{Value, json};

use super::options::{SynthOptions, SynthSource};
use super::trial::TestFile;
use crate::python::{PACKAGE, ask};

/// Folders that no test needs.
const LEFT_OUT: [&str; 9] =
    ["docs", "doc", "benchmark", "benchmarks", "examples", "requirements", ".github", "scripts", "tools"];

/// File name endings that are kept outside of tests.
const KEPT: [&str; 5] = [".py", ".pyi", ".typed", ".toml", ".cfg"];

/// Maximum size of a file that is kept.
const MAX_BYTES: usize = 1 << 20;

/// The kept part of a distribution.
pub(super) struct Distribution {
    /// As in the name of the archive, in lower case.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) archive: String,
    pub(super) sha256: String,
    pub(super) files: Arc<[TestFile]>,
}

impl Distribution {
    /// Reads a distribution.
    ///
    /// # Errors
    /// The archive is not available, is not the named one, or has no tests.
    pub(super) fn read(source: &SynthSource, options: &SynthOptions) -> Result<Self, Problem> {
        let request = match source {
            SynthSource::Package { name, version } => json!({ "name": name, "version": version }),
            SynthSource::Archive(path) => json!({ "sdist": path }),
        };
        let rows = ask(&options.python, PACKAGE, &request)?;
        let what = match source {
            SynthSource::Package { name, version } => format!("{name} {version}"),
            SynthSource::Archive(path) => path.display().to_string(),
        };
        if let Some(reason) = rows.iter().find_map(|row| row["refused"].as_str()) {
            let help = "name another version, or a local archive with `--sdist`";
            return Err(Problem::new(format!("`{what}` is not available: {reason}"), help));
        }
        let text = |key: &str| rows.first().and_then(|row| row[key].as_str()).unwrap_or_default().to_owned();
        let (archive, sha256) = (text("archive"), text("sha256"));
        let stem = archive.trim_end_matches(".tar.gz");
        let Some((name, version)) = stem.rsplit_once('-').filter(|_| stem.len() < archive.len()) else {
            let help = "name a source distribution: `NAME-VERSION.tar.gz`";
            return Err(Problem::new(
                format!("`{archive}` does not have the name of a source distribution"),
                help,
            ));
        };
        let mut files: Vec<TestFile> = rows.iter().filter_map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        if !files.iter().any(|file| is_test(&file.path)) {
            let help = "choose a package whose source distribution has a folder `tests`";
            return Err(Problem::new(format!("`{what}` has no folder `tests`"), help));
        }
        Ok(Self {
            name: name.to_lowercase().replace('_', "-"),
            version: version.to_owned(),
            archive,
            sha256,
            files: files.into(),
        })
    }

    /// Files in which faults may be injected, by path.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_source = |file: &&TestFile| {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            file.path.ends_with(".py")
                && file.path.contains('/')
                && !is_test(&file.path)
                && name != "conftest.py"
        };
        self.files
            .iter()
            .filter(is_source)
            .filter_map(|file| Some((file.path.as_str(), std::str::from_utf8(&file.content).ok()?)))
    }
}

/// Whether a path belongs to the tests.
pub(super) fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.starts_with("test/")
}

fn file(row: &Value) -> Option<TestFile> {
    let path = row["path"].as_str()?;
    let content = STANDARD.decode(row["content"].as_str()?).ok()?;
    if !is_kept(path) || content.len() > MAX_BYTES || std::str::from_utf8(&content).is_err() {
        return None;
    }
    let mode = if row["mode"].as_u64() == Some(0o755) { 0o755 } else { 0o644 };
    Some(TestFile { path: path.to_owned(), mode, content: content.into() })
}

fn is_kept(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_licence =
        ["LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS"].iter().any(|begin| name.starts_with(begin));
    if path.contains('/') && (LEFT_OUT.contains(&top) || top.ends_with(".egg-info")) {
        return false;
    }
    is_licence || is_test(path) || KEPT.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, kept: bool) {
        assert_eq!(is_kept(path), kept, "{path}");
    }

    #[test]
    fn files_that_tests_need_are_kept() {
        for path in
            ["LICENSE", "src/pen/nib.py", "pen/py.typed", "tests/data/a.txt", "pyproject.toml", "setup.py"]
        {
            check(path, true);
        }
        for path in ["README.md", "PKG-INFO", "docs/conf.py", "pen.egg-info/SOURCES.txt", "pen/logo.svg"] {
            check(path, false);
        }
    }
}
