//! Resolves which files COPY and ADD put where.
//!
//! Source: the reference of COPY: the content of a folder is copied, not the folder; a destination that ends with a
//! slash, or is an existing folder, receives files under their names; wildcards match within one path component.

use std::collections::BTreeSet;

use crate::tree::{Tree, TreeFile};

/// A copied file or folder, by its absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Copied<'t> {
    /// A named file; for a link, the file that it points to.
    File {
        file: &'t TreeFile,
        to: String,
    },
    /// A file of a copied folder: a link stays a link.
    InFolder {
        file: &'t TreeFile,
        to: String,
    },
    Folder(String),
}

/// Destination of a COPY.
#[derive(Debug)]
pub(super) struct Destination<'d> {
    /// Absolute, without a trailing slash.
    pub(super) path: &'d str,
    /// Whether the destination is written as a folder, or is an existing one.
    pub(super) is_folder: bool,
}

/// The files that a COPY takes from the build folder. `tree` holds the files that are not ignored.
///
/// # Errors
/// A message for the user.
pub(super) fn copied<'t>(
    tree: &'t Tree,
    sources: &[String],
    destination: &Destination<'_>,
) -> Result<Vec<Copied<'t>>, String> {
    let folders = folders(tree);
    let mut laid = Vec::new();
    let mut named_files = 0;
    for source in sources {
        let parts = parts(source)?;
        let before = laid.len();
        if parts.is_empty() {
            content(tree, "", destination.path, &mut laid);
            named_files += usize::from(laid.len() == before);
            continue;
        }
        for file in tree.files.iter().filter(|file| path_matches(&parts, &file.path)) {
            let to = if destination.is_folder {
                join(destination.path, file.path.rsplit('/').next().unwrap_or(&file.path))
            } else {
                destination.path.to_owned()
            };
            if !file.is_readable() {
                let path = &file.path;
                return Err(format!("`{path}` is a symbolic link, but not to a file; name its target"));
            }
            named_files += 1;
            laid.push(Copied::File { file, to });
        }
        let matching = folders.iter().filter(|folder| path_matches(&parts, folder));
        let mut found = laid.len() > before;
        for folder in matching {
            found = true;
            content(tree, folder, destination.path, &mut laid);
        }
        if !found {
            return Err(format!("there is no `{source}` in the build folder, or it is ignored"));
        }
    }
    if named_files > 1 && !destination.is_folder {
        return Err(format!(
            "several files are copied to `{}`, which is not written as a folder",
            destination.path
        ));
    }
    Ok(laid)
}

/// Copies everything below one folder to the same places below another.
fn content<'t>(tree: &'t Tree, folder: &str, to: &str, laid: &mut Vec<Copied<'t>>) {
    let below = |path: &'t str| -> Option<&'t str> {
        if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
    };
    laid.push(Copied::Folder(to.to_owned()));
    for file in &tree.files {
        if let Some(rest) = below(&file.path) {
            laid.push(Copied::InFolder { file, to: join(to, rest) });
        }
    }
    for empty in &tree.empty_folders {
        if let Some(rest) = below(empty) {
            laid.push(Copied::Folder(join(to, rest)));
        }
    }
}

fn folders(tree: &Tree) -> BTreeSet<&str> {
    let mut folders: BTreeSet<&str> = tree.empty_folders.iter().map(String::as_str).collect();
    for path in tree.files.iter().map(|file| &file.path).chain(&tree.empty_folders) {
        folders.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
    }
    folders
}

fn parts(source: &str) -> Result<Vec<&str>, String> {
    let parts: Vec<&str> = source.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("`{source}` is outside of the build folder"));
    }
    if source.contains('[') {
        return Err(format!("`{source}` has a character set, which is not supported; name the files"));
    }
    Ok(parts)
}

fn path_matches(parts: &[&str], path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    parts.len() == names.len() && parts.iter().zip(&names).all(|(part, name)| name_matches(part, name))
}

/// Matches `*` and `?` within one path component.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Position of the last `*`, and the length that it matched so far.
    let (mut at, mut taken, mut star) = (0, 0, None);
    while taken < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, taken));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[taken] => {
                at += 1;
                taken += 1;
            }
            _ => match star {
                Some((star_at, from)) => {
                    star = Some((star_at, from + 1));
                    at = star_at + 1;
                    taken = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Appends a path to another.
pub(super) fn join(above: &str, below: &str) -> String {
    format!("{}/{below}", above.trim_end_matches('/'))
}

/// A path relative to a folder, without `.`, `..` and a trailing slash.
pub(super) fn absolute(path: &str, from: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{from}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[&str], to: &str, is_folder: bool, expected: Result<&[&str], &str>) {
        let file = |path: &str| TreeFile {
            path: path.to_owned(),
            from: path.into(),
            mode: 0o644,
            bytes: 0,
            link: None,
        };
        let tree = Tree {
            files: ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.md"].map(file).to_vec(),
            empty_folders: vec!["sub/empty".to_owned()],
        };
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let got = copied(&tree, &sources, &Destination { path: to, is_folder });
        let got: Result<Vec<String>, String> = got.map(|laid| {
            let name = |laid: &Copied<'_>| match laid {
                Copied::File { file, to } | Copied::InFolder { file, to } => format!("{} {to}", file.path),
                Copied::Folder(to) => format!("{to}/"),
            };
            laid.iter().map(name).collect()
        });
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected),
            (Err(got), Err(part)) => assert!(got.contains(part), "{got}"),
            (got, _) => panic!("{got:?}"),
        }
    }

    #[test]
    fn copy_matches_docker() {
        check(&["a.txt"], "/app/x", false, Ok(&["a.txt /app/x"]));
        check(&["./a.txt"], "/app", true, Ok(&["a.txt /app/a.txt"]));
        check(&["*.txt"], "/app", true, Ok(&["a.txt /app/a.txt", "b.txt /app/b.txt"]));
        check(
            &["sub"],
            "/app",
            true,
            Ok(&["/app/", "sub/c.txt /app/c.txt", "sub/deep/d.md /app/deep/d.md", "/app/empty/"]),
        );
        check(&["sub/deep/"], "/app/x", false, Ok(&["/app/x/", "sub/deep/d.md /app/x/d.md"]));
        check(&["*.txt"], "/app/x", false, Err("several files"));
        check(&["z"], "/app", true, Err("there is no `z`"));
        check(&["../z"], "/app", true, Err("is outside of"));
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(absolute("a/./b/..", "/w"), "/w/a");
        assert_eq!(absolute("/a//b/", "/w"), "/a/b");
        assert_eq!(absolute(".", "/w"), "/w");
        assert_eq!(absolute("../..", "/w"), "/");
    }
}
