//! Finds the files that pages need: those that they name, directly or through other files.

use std::collections::{BTreeMap, BTreeSet};

/// Paths of the files that these pages need, including the pages. A file is needed if its name occurs in a text; a file
/// in a subfolder, if the folder's name does, since scripts compose the names of images.
pub(super) fn needed(files: &BTreeMap<String, Vec<u8>>, pages: &[String]) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = pages.iter().cloned().collect();
    let mut unread: Vec<String> = pages.to_vec();
    while let Some(path) = unread.pop() {
        let Some(text) = files.get(&path).and_then(|content| std::str::from_utf8(content).ok()) else {
            continue;
        };
        for other in files.keys().filter(|other| is_loaded(other)) {
            if !found.contains(other) && text.contains(mark(other)) {
                found.insert(other.clone());
                unread.push(other.clone());
            }
        }
    }
    found
}

/// Pages load nothing from other pages.
fn is_loaded(path: &str) -> bool {
    path.starts_with("core/") || path.starts_with("common/")
}

/// The text that loads the file.
fn mark(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["common", above, own, _, ..] => &path["common/".len()..][..above.len() + own.len() + 2],
        _ => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_files_are_included() {
        let files: BTreeMap<String, Vec<u8>> = [
            (
                "miniwob/a.html",
                "<script src=../core/core.js></script><img src='../common/special/a/' + name>",
            ),
            ("miniwob/b.html", "../common/other.js"),
            ("core/core.js", "url('images/x.png')"),
            ("core/jquery/images/x.png", ""),
            ("core/record.js", ""),
            ("common/special/a/deep/y.png", ""),
            ("common/special/ab/z.png", ""),
            ("common/other.js", ""),
        ]
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
        .into();
        let found = needed(&files, &["miniwob/a.html".to_owned()]);
        let expected =
            ["common/special/a/deep/y.png", "core/core.js", "core/jquery/images/x.png", "miniwob/a.html"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
}
