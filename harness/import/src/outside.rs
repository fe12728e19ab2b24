//! Places that tests name and that a verifier in a sandbox finds as nobody left them.
//!
//! A verifier in a sandbox of its own gets a copy of the workspace, the image, and nothing else of the agent's. A test that looks at
//! another place fails, whatever the agent did; in Harbor and in Terminal-Bench, it would find what the agent left there. Nothing but a
//! run can tell which of the paths in a test decide, so they are told and not refused.
//!
//! O1. A path is told if it is neither in the workspace, nor in the image, nor where every verifier has its own files. O2. Of a task,
//! one note, with the first places.

use std::path::{Path, PathBuf};

use crate::findings::Findings;
use crate::tree::Tree;

/// Most bytes of a file that is looked through: a longer one is data.
const MOST_BYTES: u64 = 1 << 20;

/// Places that are named in a note.
const MOST_TOLD: usize = 3;

/// Folders that a verifier has of its own, whatever the agent did.
const OWN: [&str; 8] = ["tests", "logs", "dev", "proc", "sys", "bin", "usr", "lib"];

/// What a verifier in a sandbox has.
#[derive(Debug)]
pub(crate) struct Reach<'a> {
    /// What it has of the agent's.
    pub(crate) workspace: &'a str,
    /// The unpacked image.
    pub(crate) image: Option<PathBuf>,
}

/// Says which places the tests look at in vain (O2).
pub(crate) fn note_outside(tests: &Tree, reach: &Reach<'_>, findings: &mut Findings) {
    let mut told: Vec<String> = Vec::new();
    let mut count = 0;
    for file in &tests.files {
        if file.bytes > MOST_BYTES || !file.is_readable() {
            continue;
        }
        // What is no text names no paths that could be read.
        let Ok(text) = std::fs::read_to_string(&file.from) else { continue };
        let mut known: Vec<&str> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            for path in paths(line) {
                if known.contains(&path) || reach.has(path) {
                    continue;
                }
                known.push(path);
                count += 1;
                if told.len() < MOST_TOLD {
                    told.push(format!("`{path}` (tests/{}:{})", file.path, number + 1));
                }
            }
        }
    }
    if count == 0 {
        return;
    }
    let more = if count > told.len() { format!(" and {} more", count - told.len()) } else { String::new() };
    findings.note(format!(
        "the tests name {}{more}, outside of the workspace `{}`: in a sandbox nothing that the agent leaves there reaches them, and a \
         test that looks for it fails; `--sandbox container` imports the task so that it does",
        told.join(", "),
        reach.workspace,
    ));
}

impl Reach<'_> {
    /// O1.
    fn has(&self, path: &str) -> bool {
        let first = path[1..].split('/').next().unwrap_or_default();
        let below = path.strip_prefix(self.workspace.trim_end_matches('/'));
        OWN.contains(&first)
            || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            || self.image.as_ref().is_some_and(|image| is_in_image(image, path))
    }
}

/// Whether an image has something at a path. Links lead nowhere but to a wrong answer about a note.
fn is_in_image(image: &Path, path: &str) -> bool {
    // Scratch space is mounted over what the image has there.
    let is_scratch = ["/tmp", "/home/agent"].iter().any(|scratch| path.starts_with(scratch));
    !is_scratch && image.join(&path[1..]).symlink_metadata().is_ok()
}

/// The absolute paths that a line names, of two parts or more; the program behind `#!` is the image's.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let line = if line.starts_with("#!") { "" } else { line };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    let begins = |at: usize| match line[..at].chars().next_back() {
        None => true,
        // Behind other signs, a slash is part of an address, a pattern, a fraction or a relative path.
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
    fn o1_what_a_verifier_has_is_not_told() {
        let image = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(image.path().join("etc/app")).unwrap();
        std::fs::create_dir_all(image.path().join("tmp/in-image")).unwrap();
        let reach = Reach { workspace: "/app/", image: Some(image.path().to_owned()) };
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
