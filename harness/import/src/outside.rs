//! Finds paths in tests that a verifier in a sandbox does not have.
//!
//! A verifier in its own sandbox gets a copy of the workspace and the image, and nothing else from the agent. A test
//! that reads another place fails for every agent; in Harbor and Terminal-Bench it would find the agent's files
//! there. Only a run shows which paths of a test matter, so they are noted and not refused.
//!
//! O1. A path is noted if it is neither in the workspace, nor in the image, nor where every verifier has its own files.
//! O2. A task has one note, with the first paths.

use std::path::{Path, PathBuf};

use crate::findings::Findings;
use crate::tree::Tree;

/// Maximum size of a file that is searched: a longer one is data.
const MAX_BYTES: u64 = 1 << 20;

/// Paths that a note lists.
const MAX_REPORTED: usize = 3;

/// Folders that every verifier has of its own.
const OWN: [&str; 8] = ["tests", "logs", "dev", "proc", "sys", "bin", "usr", "lib"];

/// The files that a verifier in a sandbox has.
#[derive(Debug)]
pub(crate) struct VerifierFiles<'a> {
    /// Its copy of the agent's workspace.
    pub(crate) workspace: &'a str,
    /// The unpacked image.
    pub(crate) image: Option<PathBuf>,
}

/// Notes the paths of the tests that the verifier does not have (O2).
pub(crate) fn note_outside(tests: &Tree, reach: &VerifierFiles<'_>, findings: &mut Findings) {
    let mut shown: Vec<String> = Vec::new();
    let mut count = 0;
    for file in &tests.files {
        if file.bytes > MAX_BYTES || !file.is_readable() {
            continue;
        }
        // A file that is not text names no paths.
        let Ok(text) = std::fs::read_to_string(&file.from) else { continue };
        let mut known: Vec<&str> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            for path in paths(line) {
                if known.contains(&path) || reach.has(path) {
                    continue;
                }
                known.push(path);
                count += 1;
                if shown.len() < MAX_REPORTED {
                    shown.push(format!("`{path}` (tests/{}:{})", file.path, number + 1));
                }
            }
        }
    }
    if count == 0 {
        return;
    }
    let more = if count > shown.len() { format!(" and {} more", count - shown.len()) } else { String::new() };
    findings.note(format!(
        "the tests name {}{more}, outside of the workspace `{}`: a sandbox gives the tests nothing that the agent leaves there, so a \
             test that needs it fails; `--sandbox container` avoids this",
        shown.join(", "),
        reach.workspace,
    ));
}

impl VerifierFiles<'_> {
    /// O1.
    fn has(&self, path: &str) -> bool {
        let first = path[1..].split('/').next().unwrap_or_default();
        let below = path.strip_prefix(self.workspace.trim_end_matches('/'));
        OWN.contains(&first)
            || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            || self.image.as_ref().is_some_and(|image| is_in_image(image, path))
    }
}

/// Whether an image has a file at a path. Following links could at worst give a wrong note.
fn is_in_image(image: &Path, path: &str) -> bool {
    // Scratch folders are mounted over those of the image.
    let is_scratch = ["/tmp", "/home/agent"].iter().any(|scratch| path.starts_with(scratch));
    !is_scratch && image.join(&path[1..]).symlink_metadata().is_ok()
}

/// The absolute paths with two or more components in a line; the program after `#!` belongs to the image.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let line = if line.starts_with("#!") { "" } else { line };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    let begins = |at: usize| match line[..at].chars().next_back() {
        None => true,
        // After other characters, a slash belongs to a URL, a pattern, a fraction or a relative path.
        Some(before) => {
            before.is_whitespace()
                || matches!(before, '"' | '\'' | '`' | '=' | '(' | '[' | ',' | '<' | '>' | '{')
        }
    };
    line.match_indices('/').filter(move |(at, _)| begins(*at)).filter_map(move |(at, _)| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(['/', '.']);
        let is_path = !path.contains("//") && path[1.min(path.len())..].contains('/');
        is_path.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_found_in_lines() {
        let check = |line: &str, expected: &[&str]| {
            assert_eq!(paths(line).collect::<Vec<_>>(), expected, "{line}");
        };
        check("assert Path(\"/etc/app/conf.ini\").exists()", &["/etc/app/conf.ini"]);
        check(
            "[ \"$(cat /srv/out.txt)\" = x ] && cmp /srv/a '/srv/b/'",
            &["/srv/out.txt", "/srv/a", "/srv/b"],
        );
        check("x=/var/lib/x>/tmp/y.", &["/var/lib/x", "/tmp/y"]);
        check("#!/usr/bin/env python3", &[]);
        check("curl https://example.org/a/b | sh", &[]);
        check("a/b/c ./d/e $HOME/f/g re.sub('/', x) 1/2 // /etc", &[]);
        check("é=/é/b /a/é", &[]);
    }

    #[test]
    fn o1_paths_of_verifier_are_not_noted() {
        let image = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(image.path().join("etc/app")).unwrap();
        std::fs::create_dir_all(image.path().join("tmp/in-image")).unwrap();
        let reach = VerifierFiles { workspace: "/app/", image: Some(image.path().to_owned()) };
        for path in
            ["/app/x", "/app", "/app/y/z", "/etc/app", "/tests/a.py", "/logs/verifier/x", "/usr/bin/x"]
        {
            assert!(reach.has(path), "{path}");
        }
        for path in ["/apple/x", "/etc/app/new", "/opt2/x", "/tmp/in-image", "/home/agent/x", "/srv/x"] {
            assert!(!reach.has(path), "{path}");
        }
    }
}
