//! Unified diffs, as far as an import needs them: the files that they touch, and their reverse.
//!
//! U1. Hunks have the lengths that their headers declare. U2. The reverse of a reverse equals the diff, except for the
//! order of adjacent removed and added lines. U3. No path leads out of the repository, or into its `.git`.

use std::fmt::Write;

use super::file_name::{is_within, quoted, unquoted};

/// A diff of several files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diff {
    files: Vec<FileDiff>,
}

/// The change of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FileDiff {
    /// Paths before and after, without `a/` and `b/`; `None` if the file does not exist then.
    before: Option<String>,
    after: Option<String>,
    /// As in the line `diff --git`.
    git: Option<(String, String)>,
    old_mode: Option<String>,
    new_mode: Option<String>,
    /// Mode of a new or deleted file.
    mode: Option<String>,
    renames: bool,
    similarity: Option<String>,
    binary: bool,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    /// Line ranges, as written: `3` or `3,7`.
    old: String,
    new: String,
    /// The text after the second `@@`.
    heading: String,
    lines: Vec<String>,
}

impl Diff {
    /// Parses a diff.
    ///
    /// # Errors
    /// A message for the user.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut reading = Reading { files: Vec::new(), old_left: 0, new_left: 0 };
        // Not `lines`: a carriage return at the end belongs to the line.
        for (index, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
            reading.line(line).map_err(|reason| format!("line {} of the diff {reason}", index + 1))?;
        }
        if reading.old_left + reading.new_left > 0 {
            return Err("the diff ends in the middle of a hunk".to_owned());
        }
        let files = reading.files;
        let is_empty = |file: &FileDiff| file.git.is_none() && file.hunks.is_empty();
        if files.is_empty() || files.iter().any(is_empty) {
            return Err("it holds no unified diff".to_owned());
        }
        Ok(Self { files })
    }

    /// The files that exist after the diff.
    pub(crate) fn paths_after(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| file.after.as_deref())
    }

    /// The diff that undoes this one.
    ///
    /// # Errors
    /// A binary file: a diff does not hold its bytes both ways.
    pub(crate) fn reversed(&self) -> Result<String, String> {
        let mut text = String::new();
        for file in &self.files {
            if file.binary {
                return Err("it changes a binary file, which cannot be reversed".to_owned());
            }
            file.write_reversed(&mut text);
        }
        Ok(text)
    }
}

struct Reading {
    files: Vec<FileDiff>,
    old_left: usize,
    new_left: usize,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if self.old_left + self.new_left > 0 {
            return self.in_hunk(line);
        }
        // A missing line end is marked after all lines that the header of the hunk declares.
        if line.starts_with('\\')
            && let Some(hunk) = self.files.last_mut().and_then(|file| file.hunks.last_mut())
        {
            hunk.lines.push(line.to_owned());
            return Ok(());
        }
        if let Some(paths) = line.strip_prefix("diff --git ") {
            let (before, after) = git_paths(paths)?.ok_or("does not name two files")?;
            self.files.push(FileDiff {
                before: Some(within(before.clone())?),
                after: Some(within(after.clone())?),
                git: Some((before, after)),
                ..FileDiff::default()
            });
            return Ok(());
        }
        if let Some(path) = line.strip_prefix("--- ") {
            let before = path_of(path, "a/")?;
            // Without a line `diff --git`, a file begins here.
            if self.files.last().is_none_or(|file| file.git.is_none() || !file.hunks.is_empty()) {
                self.files.push(FileDiff::default());
            }
            self.last()?.before = before;
            return Ok(());
        }
        // Text before the first file does not belong to the diff.
        let Some(file) = self.files.last_mut() else { return Ok(()) };
        if let Some(path) = line.strip_prefix("+++ ") {
            file.after = path_of(path, "b/")?;
        } else if let Some(header) = line.strip_prefix("@@ ") {
            self.begin_hunk(header)?;
        } else if let Some(mode) = line.strip_prefix("new file mode ") {
            (file.before, file.mode) = (None, Some(mode.to_owned()));
        } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
            (file.after, file.mode) = (None, Some(mode.to_owned()));
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            file.old_mode = Some(mode.to_owned());
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            file.new_mode = Some(mode.to_owned());
        } else if let Some(path) = line.strip_prefix("rename from ") {
            (file.before, file.renames) = (Some(within(named(path)?)?), true);
        } else if let Some(path) = line.strip_prefix("rename to ") {
            (file.after, file.renames) = (Some(within(named(path)?)?), true);
        } else if let Some(share) = line.strip_prefix("similarity index ") {
            file.similarity = Some(share.to_owned());
        } else if line.starts_with("GIT binary patch") {
            file.binary = true;
        } else if line.starts_with("Binary files ") {
            return Err("names a binary file without its content".to_owned());
        }
        Ok(())
    }

    fn last(&mut self) -> Result<&mut FileDiff, String> {
        self.files.last_mut().ok_or_else(|| "belongs to no file".to_owned())
    }

    fn begin_hunk(&mut self, header: &str) -> Result<(), String> {
        let parts = header.split_once(" @@").and_then(|(ranges, heading)| {
            let (old, new) = ranges.split_once(' ')?;
            let (old, new) = (old.strip_prefix('-')?, new.strip_prefix('+')?);
            Some((old, length(old)?, new, length(new)?, heading))
        });
        let (old, old_length, new, new_length, heading) =
            parts.ok_or_else(|| "is not the header of a hunk".to_owned())?;
        (self.old_left, self.new_left) = (old_length, new_length);
        let hunk =
            Hunk { old: old.to_owned(), new: new.to_owned(), heading: heading.to_owned(), lines: Vec::new() };
        self.last()?.hunks.push(hunk);
        Ok(())
    }

    /// U1.
    fn in_hunk(&mut self, line: &str) -> Result<(), String> {
        let (old, new) = match line.bytes().next() {
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            // Some programs strip the space of an empty line.
            Some(b' ') | None => (1, 1),
            Some(b'\\') => (0, 0),
            Some(_) => {
                return Err("is not a line of a hunk, which is shorter than its header says".to_owned());
            }
        };
        if old > self.old_left || new > self.new_left {
            return Err("exceeds the length in the header of its hunk".to_owned());
        }
        self.old_left -= old;
        self.new_left -= new;
        if let Some(hunk) = self.last()?.hunks.last_mut() {
            hunk.lines.push(line.to_owned());
        }
        Ok(())
    }
}

/// Number of lines of a range `3` or `3,7`.
fn length(range: &str) -> Option<usize> {
    match range.split_once(',') {
        Some((first, length)) => first.parse::<usize>().ok().and(length.parse().ok()),
        None => range.parse::<usize>().ok().map(|_| 1),
    }
}

/// `a/X b/Y`, each possibly quoted. Equal names may hold spaces.
fn git_paths(paths: &str) -> Result<Option<(String, String)>, String> {
    let both = |before: String, after: String| {
        Some((before.strip_prefix("a/")?.to_owned(), after.strip_prefix("b/")?.to_owned()))
    };
    if paths.starts_with('"') {
        let (before, rest) = unquoted(paths)?;
        let Some(rest) = rest.strip_prefix(' ') else { return Ok(None) };
        return Ok(both(before, named(rest)?));
    }
    if paths.ends_with('"')
        && let Some(at) = paths.find(" \"")
    {
        return Ok(both(paths[..at].to_owned(), named(&paths[at + 1..])?));
    }
    let half = paths.len() / 2;
    if let (Some(before), Some(after)) = (paths.get(..half), paths.get(half + 1..))
        && let Some((before, after)) = both(before.to_owned(), after.to_owned())
        && before == after
    {
        return Ok(Some((before, after)));
    }
    let split = paths.split_once(" b/").map(|(before, after)| (before.to_owned(), format!("b/{after}")));
    Ok(split.and_then(|(before, after)| both(before, after)))
}

/// The name on a line of its own, possibly quoted.
fn named(written: &str) -> Result<String, String> {
    if written.starts_with('"') { Ok(unquoted(written)?.0) } else { Ok(written.to_owned()) }
}

/// The path of a line `---` or `+++`. A date may follow after a tab.
fn path_of(written: &str, prefix: &str) -> Result<Option<String>, String> {
    let path = if written.starts_with('"') {
        unquoted(written)?.0
    } else {
        written.split('\t').next().unwrap_or(written).trim_end().to_owned()
    };
    if path == "/dev/null" {
        return Ok(None);
    }
    within(path.strip_prefix(prefix).unwrap_or(&path).to_owned()).map(Some)
}

/// U3.
fn within(path: String) -> Result<String, String> {
    if is_within(&path) {
        Ok(path)
    } else {
        Err(format!("names `{path}`, which is not a file of the repository"))
    }
}

impl FileDiff {
    fn write_reversed(&self, text: &mut String) {
        // Writing to a string does not fail.
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        if let Some((before, after)) = &self.git {
            let (after, before) = (format!("a/{after}"), format!("b/{before}"));
            line(format_args!("diff --git {} {}", quoted(&after), quoted(&before)));
        }
        if let (Some(old), Some(new)) = (&self.old_mode, &self.new_mode) {
            line(format_args!("old mode {new}"));
            line(format_args!("new mode {old}"));
        }
        match (&self.mode, &self.before, &self.after) {
            (Some(mode), None, _) => line(format_args!("deleted file mode {mode}")),
            (Some(mode), _, None) => line(format_args!("new file mode {mode}")),
            _ => {}
        }
        if let (true, Some(before), Some(after)) = (self.renames, &self.before, &self.after) {
            line(format_args!("similarity index {}", self.similarity.as_deref().unwrap_or("90%")));
            line(format_args!("rename from {}", quoted(after)));
            line(format_args!("rename to {}", quoted(before)));
        }
        if self.hunks.is_empty() {
            return;
        }
        let shown = |path: &Option<String>, prefix: &str| match path {
            Some(path) => quoted(&format!("{prefix}{path}")).into_owned(),
            None => "/dev/null".to_owned(),
        };
        line(format_args!("--- {}", shown(&self.after, "a/")));
        line(format_args!("+++ {}", shown(&self.before, "b/")));
        for hunk in &self.hunks {
            line(format_args!("@@ -{} +{} @@{}", hunk.new, hunk.old, hunk.heading));
            hunk.reversed_lines().iter().for_each(|reversed| line(format_args!("{reversed}")));
        }
    }
}

impl Hunk {
    /// Swaps removed and added lines; of adjacent ones, the removed come first.
    fn reversed_lines(&self) -> Vec<String> {
        let mut reversed = Vec::new();
        let (mut removed, mut added): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut last_was_added = false;
        for line in &self.lines {
            match line.bytes().next() {
                Some(b'-') => {
                    added.push(format!("+{}", &line[1..]));
                    last_was_added = true;
                }
                Some(b'+') => {
                    removed.push(format!("-{}", &line[1..]));
                    last_was_added = false;
                }
                // The marker of a missing line end belongs to the line before.
                Some(b'\\') if !removed.is_empty() || !added.is_empty() => {
                    if last_was_added { &mut added } else { &mut removed }.push(line.clone());
                }
                _ => {
                    reversed.append(&mut removed);
                    reversed.append(&mut added);
                    reversed.push(line.clone());
                }
            }
        }
        reversed.append(&mut removed);
        reversed.append(&mut added);
        reversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str = "diff --git a/src/a.py b/src/a.py\nindex 1..2 100644\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,4 @@ def f():\n x\n-y\n+z\n+w\n v\n";

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let found = Diff::read(text);
        match expected {
            Ok(paths) => assert_eq!(found.unwrap().paths_after().collect::<Vec<_>>(), paths, "{text}"),
            Err(reason) => assert_eq!(found.unwrap_err(), reason, "{text}"),
        }
    }

    #[test]
    fn u1_hunk_length_must_match_header() {
        check(CHANGE, Ok(&["src/a.py"]));
        check(
            &CHANGE.replace("-y\n", "-y\n-y\n-y\n"),
            Err("line 9 of the diff exceeds the length in the header of its hunk"),
        );
        check(&CHANGE.replace("+w\n", ""), Err("the diff ends in the middle of a hunk"));
        check(&CHANGE.replace(" v\n", ""), Err("the diff ends in the middle of a hunk"));
        check(
            &CHANGE.replace("+w", "w"),
            Err("line 9 of the diff is not a line of a hunk, which is shorter than its header says"),
        );
        check("--- a/x\n+++ b/x\n@@ one @@\n", Err("line 3 of the diff is not the header of a hunk"));
    }

    #[test]
    fn invalid_diffs_are_refused() {
        for text in ["", "\n", "see the pull request\n", "--- a/x\n+++ b/x\n"] {
            check(text, Err("it holds no unified diff"));
        }
        check(
            "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n",
            Err("line 2 of the diff names a binary file without its content"),
        );
    }

    #[test]
    fn new_deleted_and_moved_files_are_parsed() {
        check(
            "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
            Ok(&["n"]),
        );
        check("diff --git a/a b.py b/a b.py\nold mode 100644\nnew mode 100755\n", Ok(&["a b.py"]));
        check("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", Ok(&["y"]));
        check("--- x.c\t2020-01-01\n+++ x.c\n@@ -1 +1 @@\n-a\n+b\n", Ok(&["x.c"]));
    }

    #[test]
    fn quoted_names_survive_a_round_trip() {
        let change = "diff --git \"a/caf\\303\\251 \\\"x\\\".py\" \"b/caf\\303\\251 \\\"x\\\".py\"\n--- \"a/caf\\303\\251 \\\"x\\\".py\"\n+++ \"b/caf\\303\\251 \\\"x\\\".py\"\n@@ -1 +1 @@\n-a\n+b\n";
        check(change, Ok(&["café \"x\".py"]));
        let back = Diff::read(change).unwrap().reversed().unwrap();
        let name = "café \\\"x\\\".py";
        let expected = format!(
            "diff --git \"a/{name}\" \"b/{name}\"\n--- \"a/{name}\"\n+++ \"b/{name}\"\n@@ -1 +1 @@\n-b\n+a\n"
        );
        assert_eq!(back, expected);
        check(&back, Ok(&["café \"x\".py"]));
        let moved = |paths: &str| {
            format!("diff --git {paths}\nsimilarity index 100%\nrename from a b\nrename to \"\\302\\265\"\n")
        };
        check(&moved("a/a b \"b/\\302\\265\""), Ok(&["µ"]));
        check(&moved("\"a/\\302\\265\" b/a b"), Ok(&["µ"]));
        check("--- /dev/null\t\n+++ \"b/t\\tab\"\t2020-01-01\n@@ -0,0 +1 @@\n+a\n", Ok(&["t\tab"]));
        check("diff --git \"a/x b/x\n", Err("line 1 of the diff has a name with an unclosed quote"));
        check(
            "--- \"a/\\377\"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            Err("line 1 of the diff has a name that is not UTF-8"),
        );
    }

    #[test]
    fn u3_paths_outside_repository_are_refused() {
        let refused = |path: &str| {
            let change = format!("--- a/x\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
            let reason = format!("line 2 of the diff names `{path}`, which is not a file of the repository");
            assert_eq!(Diff::read(&change).unwrap_err(), reason);
        };
        for path in
            ["../x", "a/../../x", "/etc/passwd", ".git/hooks/pre-commit", "a/.GIT/config", "..", "a//b", "."]
        {
            refused(path);
        }
        let moved = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to ../y\n";
        assert_eq!(
            Diff::read(moved).unwrap_err(),
            "line 4 of the diff names `../y`, which is not a file of the repository"
        );
        assert!(Diff::read("diff --git \"a/../\\303\\251\" b/x\n").is_err());
        check("--- a/..x/y..\n+++ b/..x/y..\n@@ -1 +1 @@\n-a\n+b\n", Ok(&["..x/y.."]));
    }

    #[test]
    fn u2_reverse_undoes_diff() {
        let back = Diff::read(CHANGE).unwrap().reversed().unwrap();
        assert_eq!(
            back,
            "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,4 +1,3 @@ def f():\n x\n-z\n-w\n+y\n v\n"
        );
        assert_eq!(Diff::read(&back).unwrap().reversed().unwrap(), CHANGE.replace("index 1..2 100644\n", ""));
        let made = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n";
        let gone = Diff::read(made).unwrap().reversed().unwrap();
        assert_eq!(
            gone,
            "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
        assert_eq!(Diff::read(&gone).unwrap().reversed().unwrap(), made);
    }
}
