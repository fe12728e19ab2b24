//! The files of the repository, read once; rules read no other files.
//!
//! I1. The files are those that git tracks or would track; ignored files are not read.
//! I2. Paths are relative to the root, separated by `/`, and sorted.

use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The reason why the files could not be read.
#[derive(Debug, Error)]
pub(crate) enum TreeError {
    #[error("no Cargo.toml with a [workspace] in {} or above it", .0.display())]
    NoWorkspace(PathBuf),
    #[error("cannot run git, which knows the files to check")]
    NoGit(#[source] std::io::Error),
    #[error("git cannot list the files to check: {0}")]
    Git(String),
    #[error("cannot read {path}")]
    Read { path: String, source: std::io::Error },
}

/// A file of the repository.
pub(crate) struct TreeFile {
    pub(crate) path: String,
    /// Absent for binary files and symbolic links.
    pub(crate) text: Option<String>,
}

/// All files of the repository.
pub(crate) struct Tree {
    files: Vec<TreeFile>,
}

/// The folder of the workspace that `start` is in.
pub(crate) fn find_root(start: &Path) -> Result<PathBuf, TreeError> {
    let is_root = |folder: &&Path| {
        std::fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
    };
    start
        .ancestors()
        .find(is_root)
        .map(Path::to_path_buf)
        .ok_or_else(|| TreeError::NoWorkspace(start.to_path_buf()))
}

impl Tree {
    /// Reads every file under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, TreeError> {
        let files = list(root)?
            .into_iter()
            .filter_map(|path| match read_text(&root.join(&path)) {
                Ok(text) => Some(Ok(TreeFile { path, text })),
                // Deleted, and not yet staged as such.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(source) => Some(Err(TreeError::Read { path, source })),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    pub(crate) fn text_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The Rust files, tests included.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text_files().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// Is `path` a file, or a folder with files in it?
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths().any(|known| {
            known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

fn list(root: &Path) -> Result<Vec<String>, TreeError> {
    let output = Command::new("git")
        // Another user's checkout may be read too.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(TreeError::NoGit)?;
    if !output.status.success() {
        return Err(TreeError::Git(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let mut paths: Vec<String> =
        String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn read_text(path: &Path) -> std::io::Result<Option<String>> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    Ok(String::from_utf8(std::fs::read(path)?).ok().filter(|text| !text.contains('\0')))
}

#[cfg(test)]
impl Tree {
    /// A repository that exists only for a test.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<TreeFile> = files
            .iter()
            .map(|(path, text)| TreeFile { path: (*path).to_owned(), text: Some((*text).to_owned()) })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

/// The problems that `rule` finds in a repository of these files.
#[cfg(test)]
pub(crate) fn problems_of(
    rule: impl Fn(&Tree) -> Vec<crate::problem::Problem>,
    files: &[(&str, &str)],
) -> Vec<String> {
    rule(&Tree::of(files)).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: bool) {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs/index.md", "")]);
        assert_eq!(tree.has(path), expected, "{path}");
    }

    #[test]
    fn files_and_folders_are_there_and_prefixes_of_names_are_not() {
        check("docs/index.md", true);
        check("docs/a", true);
        check("docs", true);
        check("docs/ind", false);
        check("docs/c", false);
    }

    #[test]
    fn the_root_is_found_from_within() {
        let here = std::env::current_dir().expect("tests have a current folder");
        let root = find_root(&here).expect("tests run inside the workspace");
        assert!(root.join("rust-toolchain.toml").is_file());
        assert!(find_root(Path::new("/")).is_err());
    }
}
