//! Plain English: phrases that make a sentence hard to read are refused in documents, comments and messages.
//!
//! I1. `ci/xtask/prose.txt` limits their number in each folder; the limit of a folder that is not listed is 0. `cargo xtask generate` lowers
//! limits and never raises one; after folders have moved, delete the file and it is written with the current numbers. CONTRIBUTING.md shows
//! plain sentences.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::tree::Tree;

/// One line for each folder: its name and the limit.
pub(crate) const ALLOWED: &str = "ci/xtask/prose.txt";
const SELF: [&str; 2] = ["CONTRIBUTING.md", "ci/xtask/src/prose.rs"];
const ENDINGS: [&str; 5] = [".md", ".rs", ".py", ".sh", ".ts"];
/// Pages that `cargo xtask generate` and `ci/attacks/table.py` write from other texts.
const GENERATED: &str = "harness/docs/reference/";

/// Whole words in lower case. A phrase that ends with a space is followed by a letter.
const REFUSED: [&str; 13] = [
    "whoever",
    "whatever",
    "nobody",
    "anybody",
    "somebody",
    "is no ",
    "are no ",
    "does it.",
    "is told of",
    "has a most",
    "goes on",
    "as it is",
    "for as long as",
];
/// Words that begin a sentence whose subject is a clause.
const CLAUSES: [&str; 3] = ["What ", "Who ", "Whose "];
/// Plain phrases that contain a refused one.
const PLAIN: [&str; 4] = ["is no longer", "are no longer", "there is no", "there are no"];

/// Checks every folder against its number.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let allowed = allowed(tree);
    let too_many = |(folder, found): &(String, Vec<Problem>)| {
        found.len() > allowed.get(folder.as_str()).copied().unwrap_or_default()
    };
    found(tree).into_iter().filter(too_many).flat_map(|(_, found)| found).collect()
}

/// [`ALLOWED`] with every limit lowered to the current number.
pub(crate) fn lowered(tree: &Tree) -> String {
    let allowed = tree.has(ALLOWED).then(|| allowed(tree));
    let line = |(folder, found): (String, Vec<Problem>)| {
        let limit = allowed.as_ref().map(|allowed| allowed.get(folder.as_str()).copied().unwrap_or_default());
        let number = found.len().min(limit.unwrap_or(usize::MAX));
        (number > 0).then(|| format!("{folder} {number}\n"))
    };
    found(tree).into_iter().filter_map(line).collect()
}

fn allowed(tree: &Tree) -> BTreeMap<&str, usize> {
    let lines = tree.text(ALLOWED).unwrap_or_default().lines();
    lines.filter_map(|line| line.split_once(' ')).filter_map(|(a, b)| Some((a, b.parse().ok()?))).collect()
}

/// The phrases of every folder.
fn found(tree: &Tree) -> BTreeMap<String, Vec<Problem>> {
    let mut found = BTreeMap::<String, Vec<Problem>>::new();
    for (path, text) in tree.text_files() {
        let foreign =
            ["fixtures", "examples", "imported"].iter().any(|part| path.split('/').any(|own| own == *part));
        let written = ENDINGS.iter().any(|ending| path.ends_with(ending)) && !path.starts_with(GENERATED);
        if foreign || !written || SELF.contains(&path) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for phrase in phrases(line).chain(clauses(line)) {
                let message = format!("plain English, see CONTRIBUTING.md: `{}`", phrase.trim());
                found.entry(folder(path)).or_default().push(Problem::new(path, index + 1, message));
            }
        }
    }
    found
}

/// `harness/cli` of `harness/cli/src/lib.rs`; `.` of a file at the root.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [_] => ".".to_owned(),
        [first, _] => (*first).to_owned(),
        [first, second, ..] => format!("{first}/{second}"),
        [] => String::new(),
    }
}

fn phrases(line: &str) -> impl Iterator<Item = &'static str> {
    let line = line.to_lowercase();
    REFUSED.into_iter().filter(move |phrase| {
        line.match_indices(phrase).any(|(at, _)| {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let behind = line[at + phrase.len()..].chars().next();
            let ends = if phrase.ends_with(' ') { is_word(behind) } else { !is_word(behind) };
            let plain = PLAIN
                .iter()
                .any(|plain| line[at..].starts_with(plain) || line[..at + phrase.len() - 1].ends_with(plain));
            ends && !plain && !is_word(line[..at].chars().next_back())
        })
    })
}

/// The words with which a sentence of the line begins that is not a question.
fn clauses(line: &str) -> impl Iterator<Item = &'static str> {
    let begins = |before: &str| {
        let before = before.trim_start_matches(|c: char| c.is_whitespace() || "/!*-|>\"".contains(c));
        before.is_empty() || [". ", ": ", "| "].iter().any(|end| before.ends_with(end))
    };
    CLAUSES.into_iter().filter(move |word| {
        line.match_indices(word).any(|(at, _)| begins(&line[..at]) && !line[at..].contains('?'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::problems_of;

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(phrases(line).chain(clauses(line)).collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn phrases_are_whole_words() {
        check("Whoever asks, and nobody else, is no user.", &["whoever", "nobody", "is no "]);
        check("/// Does it.", &["does it."]);
        check("/// What is read is kept. Who asks, waits.", &["What ", "Who "]);
        check("/// A turn. What now? Know What it is.", &[]);
        check("This is no longer there: asked_by_nobody().", &[]);
        check("The basis notes 2 values. There is no limit.", &[]);
    }

    #[test]
    fn folders_have_their_numbers() {
        let source = ("harness/a/src/x.rs", "// nobody\n// anybody\n");
        let message =
            |line, word| format!("harness/a/src/x.rs:{line}: plain English, see CONTRIBUTING.md: `{word}`");
        let both = [message(1, "nobody"), message(2, "anybody")];
        assert_eq!(problems_of(super::check, &[source]), both);
        assert_eq!(problems_of(super::check, &[source, (ALLOWED, "harness/a 1\n")]), both);
        assert!(problems_of(super::check, &[source, (ALLOWED, "harness/a 2\n")]).is_empty());
    }

    #[test]
    fn numbers_only_fall() {
        let tree = Tree::of(&[
            ("harness/a/x.md", "nobody\n"),
            ("harness/b/x.md", "nobody\n"),
            (ALLOWED, "harness/a 3\n"),
        ]);
        assert_eq!(lowered(&tree), "harness/a 1\n");
        assert_eq!(lowered(&Tree::of(&[("harness/b/x.md", "nobody\n")])), "harness/b 1\n");
    }
}
