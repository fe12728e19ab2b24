//! Rules of every text file: no trailing spaces, a newline at the end, no marks of an unfinished merge, and no
//! path of the machine it was written on.

use crate::problem::Problem;
use crate::tree::Tree;

/// First folders of paths of personal files.
const PERSONAL: [&str; 3] = ["home", "root", "Users"];
/// The home of every sandboxed shell, the same on all machines.
const SANDBOX_HOME: &str = "/home/agent";

/// Checks every text file. Of fixtures and snapshots, only machine paths are checked.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.text_files() {
        let verbatim = path.ends_with(".snap") || path.split('/').any(|part| part == "fixtures");
        for (index, line) in text.lines().enumerate() {
            let mut problem = |message: String| problems.push(Problem::new(path, index + 1, message));
            if let Some(found) = machine_path(line) {
                problem(format!("{found} is a path of one machine"));
            }
            if !verbatim && line.ends_with([' ', '\t', '\r']) {
                problem("trailing whitespace".to_owned());
            }
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                problem("an unfinished merge".to_owned());
            }
        }
        if !verbatim && !text.is_empty() && !text.ends_with('\n') {
            problems.push(Problem::new(path, text.lines().count(), "no newline at the end"));
        }
    }
    problems
}

/// The first absolute path in `line` into a personal folder.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        // Inside a longer path, a URL, a pattern or an expanded variable, the slash does not start a path.
        let begins = line[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && !"._-~}$)]>*?/".contains(c));
        let path = &line[at..];
        let end = path.find(|c: char| !c.is_alphanumeric() && !"/._-".contains(c)).unwrap_or(path.len());
        let (folder, inside) = path[1..end].split_once('/')?;
        let personal = PERSONAL.contains(&folder) && !inside.is_empty() && !path.starts_with(SANDBOX_HOME);
        (begins && personal).then_some(&path[..end])
    })
}

#[cfg(test)]
mod tests {
    use crate::tree::problems_of;

    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(problems_of(super::check, &[(path, text)]), expected, "{text:?}");
    }

    #[test]
    fn lines_are_clean() {
        check("a.md", "one\n\ntwo\n", &[]);
        check("a.md", "", &[]);
        check("a.md", "one \ntwo\t\n", &["a.md:1: trailing whitespace", "a.md:2: trailing whitespace"]);
        check("a.md", "one\r\n", &[]);
        check("a.md", "one", &["a.md:1: no newline at the end"]);
        check("a/fixtures/x", "one ", &[]);
        check("a/it__x.snap", "one ", &[]);
    }

    #[test]
    fn merges_are_finished() {
        check("a.rs", "a\n<<<<<<< HEAD\n", &["a.rs:2: an unfinished merge"]);
        check("a.rs", ">>>>>>> other\n", &["a.rs:1: an unfinished merge"]);
        check("a.md", "Title\n=======\n", &[]);
    }

    #[test]
    fn paths_of_a_machine_stay_out() {
        // Put together here, so that this file passes its own rule.
        let personal = ["", "home", "ada", "x.rs"].join("/");
        let message = format!("a.md:1: {personal} is a path of one machine");
        check("a.md", &format!("see {personal}\n"), &[&message]);
        check("a.md", &format!("see \"{personal}\".\n"), &[&message.replace("see ", "")]);
        check("a.md", "at https://example.org/home/ada and src/home/ada and /home\n", &[]);
        check("a.sh", "ls /proc/*/root/x /proc/[0-9]*/root/x $HOME/root/x\n", &[]);
        check("a.md", "in a sandbox, /home/agent/x\n", &[]);
    }
}
