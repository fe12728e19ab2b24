//! The files below a folder of a task.
//!
//! I1. Only regular files inside the folder are read. A link that leads out is refused, any other stays a link; where a
//! file is needed, a link to a file inside counts as that file. I2. Sorted by path, independently of the file system.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clawrl_config::stays_inside;

use crate::findings::Findings;

/// Maximum size of one file: files are held in memory when they are copied into an environment.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum size of all files of a task.
const MAX_TOTAL_BYTES: u64 = 1 << 30;
/// Maximum files of a folder; a suite's fixtures have the same bound.
const MAX_FILES: usize = 10_000;
/// Maximum nesting of folders.
const MAX_DEPTH: usize = 64;

/// A regular file, or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    /// Relative to the folder, `/`-separated.
    pub(crate) path: String,
    /// Where to read it; a link to no file inside cannot be read.
    pub(crate) from: PathBuf,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) bytes: u64,
    /// Target of a link.
    pub(crate) link: Option<Link>,
}

/// A symbolic link to a place inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// As written.
    pub(crate) target: String,
    /// Whether the target is a regular file.
    pub(crate) is_to_file: bool,
}

impl TreeFile {
    /// Whether it has readable content.
    pub(crate) fn is_readable(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.is_to_file)
    }
}

/// The content of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TreeFile>,
    /// Empty folders, relative to the folder.
    pub(crate) empty_folders: Vec<String>,
}

impl Tree {
    /// Lists everything below a folder; what cannot be imported is refused by its path.
    pub(crate) fn read(folder: &Path, findings: &mut Findings) -> Self {
        let before = findings.count();
        if fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_symlink()) {
            findings.refuse_path(folder, "is a symbolic link", "replace it by its target");
            return Self::default();
        }
        let mut walk = Walk { folder, findings, tree: Self::default(), root: fs::canonicalize(folder).ok() };
        walk.below("", 0);
        let mut tree = walk.tree;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.empty_folders.sort();
        if findings.count() == before {
            tree.check_size(folder, findings);
        }
        tree
    }

    /// A file by its path, or a link to one.
    pub(crate) fn file(&self, path: &str) -> Option<&TreeFile> {
        self.files.iter().find(|file| file.path == path && file.is_readable())
    }

    fn check_size(&self, folder: &Path, findings: &mut Findings) {
        let total: u64 = self.files.iter().map(|file| file.bytes).sum();
        if total > MAX_TOTAL_BYTES {
            let help = format!(
                "keep the files of a task below {} MiB; an image may hold more",
                MAX_TOTAL_BYTES >> 20
            );
            findings.refuse_path(folder, format_args!("its files have {} MiB", total >> 20), help);
        }
        if self.files.len() > MAX_FILES {
            let help =
                format!("keep to {MAX_FILES} files, or pack them into an archive that the image unpacks");
            findings.refuse_path(folder, format_args!("has {} files", self.files.len()), help);
        }
    }
}

struct Walk<'a> {
    folder: &'a Path,
    findings: &'a mut Findings,
    tree: Tree,
    /// Without links.
    root: Option<PathBuf>,
}

impl Walk<'_> {
    fn below(&mut self, below: &str, depth: usize) {
        let here = if below.is_empty() { self.folder.to_owned() } else { self.folder.join(below) };
        if depth > MAX_DEPTH {
            return self.refuse(&here, "has too many nested folders", "flatten it");
        }
        let listing = fs::read_dir(&here).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let entries = match listing {
            Ok(entries) => entries,
            Err(cause) => return self.unreadable(&here, &cause),
        };
        if entries.is_empty() && !below.is_empty() {
            self.tree.empty_folders.push(below.to_owned());
        }
        for entry in entries {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                let help = "rename it, or create it in the Dockerfile or in a script";
                self.refuse(&entry.path(), "its name is not UTF-8", help);
                continue;
            };
            if name.chars().any(char::is_control) {
                let help = "rename it, or create it in the Dockerfile or in a script";
                self.refuse(&entry.path(), "its name holds a control character", help);
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            self.entry(path, depth);
        }
    }

    fn entry(&mut self, path: String, depth: usize) {
        let here = self.folder.join(&path);
        let metadata = match fs::symlink_metadata(&here) {
            Ok(metadata) => metadata,
            Err(cause) => return self.unreadable(&here, &cause),
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.below(&path, depth + 1);
        } else if kind.is_symlink() {
            self.link(path, &here);
        } else if kind.is_file() {
            self.file(path, here, &metadata, None);
        } else {
            let help = "remove it; a script can create it where it is needed";
            self.refuse(&here, "is neither a file nor a folder", help);
        }
    }

    fn file(&mut self, path: String, from: PathBuf, metadata: &fs::Metadata, link: Option<Link>) {
        if metadata.len() > MAX_FILE_BYTES {
            let message = format!("has {} MiB", metadata.len() >> 20);
            let help =
                format!("keep files below {} MiB; an image may hold larger ones", MAX_FILE_BYTES >> 20);
            return self.refuse(&from, &message, &help);
        }
        let mode = metadata.permissions().mode() & 0o777;
        self.tree.files.push(TreeFile { path, from, mode, bytes: metadata.len(), link });
    }

    fn link(&mut self, path: String, here: &Path) {
        let target = match fs::read_link(here) {
            Ok(target) => target,
            Err(cause) => return self.unreadable(here, &cause),
        };
        let target = target.to_str().filter(|target| stays_inside(&path, target));
        // The path may lead through other links.
        let real = fs::canonicalize(here).ok();
        let is_inside = |real: &PathBuf| self.root.as_ref().is_some_and(|root| real.starts_with(root));
        let (Some(target), true) = (target, real.as_ref().is_none_or(is_inside)) else {
            let message = "is a symbolic link that leads out of its folder";
            return self.refuse(here, message, "replace it by its target");
        };
        let target = target.to_owned();
        let file =
            real.and_then(|real| Some((fs::metadata(&real).ok().filter(fs::Metadata::is_file)?, real)));
        match file {
            Some((metadata, real)) => {
                self.file(path, real, &metadata, Some(Link { target, is_to_file: true }))
            }
            None => {
                let link = Some(Link { target, is_to_file: false });
                self.tree.files.push(TreeFile { path, from: here.to_owned(), mode: 0o777, bytes: 0, link });
            }
        }
    }

    fn unreadable(&mut self, here: &Path, cause: &io::Error) {
        self.refuse(here, &format!("cannot be read: {}", cause.kind()), "make it readable for this user");
    }

    fn refuse(&mut self, path: &Path, message: &str, help: &str) {
        self.findings.refuse_path(path, message, help);
    }
}
