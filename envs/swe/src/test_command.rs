//! Files of the repository that a task's test command starts: changing them changes the test run.
//!
//! The command is split into words, not parsed as a shell would: a task must list other programs under `protected`.

use std::collections::HashSet;

/// Programs that start the file given to them.
const STARTERS: &[&str] =
    &[".", "source", "bash", "sh", "dash", "zsh", "exec", "env", "node", "perl", "ruby", "python"];
/// Programs that follow a file of a fixed name.
const BY_NAME: &[(&str, &[&str])] = &[
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("nox", &["noxfile.py"]),
    ("invoke", &["tasks.py"]),
];

/// The paths, whether or not they exist: a file may be added where another program is searched for first.
pub(crate) fn started(command: &str, base: &HashSet<Vec<u8>>) -> Vec<String> {
    let mut paths = Vec::new();
    for simple in command.split(['\n', ';', '&', '|', '(', ')']) {
        let mut is_program = true;
        let mut is_module = false;
        for word in simple.split_whitespace() {
            let word = word.trim_matches(['"', '\'']);
            let path = word.strip_prefix("./").unwrap_or(word);
            if is_module {
                let module = path.replace('.', "/");
                let files = [format!("{module}.py"), format!("{module}/__main__.py")];
                paths.extend(files.into_iter().filter(|path| base.contains(path.as_bytes())));
            } else if is_program && base.contains(path.as_bytes()) {
                paths.push(path.to_owned());
            } else if is_program && let Some((_, files)) = BY_NAME.iter().find(|(name, _)| *name == word) {
                paths.extend(files.iter().map(|&file| file.to_owned()));
            }
            // An option, and a variable before a program, do not affect the next word.
            is_module = word == "-m";
            let name = word
                .rsplit('/')
                .next()
                .unwrap_or(word)
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            is_program = (is_program && (word.starts_with('-') || word.contains('=')))
                || STARTERS.contains(&if name.is_empty() { word } else { name });
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: &[&str]) {
        let base = ["run.sh", "ci/tests.sh", "tool/runtests.py", "tool/__main__.py", "pkg/core.py"]
            .map(|path| path.as_bytes().to_vec())
            .into();
        assert_eq!(started(command, &base), expected, "{command}");
    }

    #[test]
    fn programs_of_the_repository_are_found_in_a_command() {
        check("./run.sh -v", &["run.sh"]);
        check("cd . && A=1 bash -eu 'ci/tests.sh' pkg/core.py", &["ci/tests.sh"]);
        check(
            "python3.11 -B tool/runtests.py; python -m tool.runtests",
            &["tool/runtests.py", "tool/runtests.py"],
        );
        check("/usr/bin/python3 -m tool", &["tool/__main__.py"]);
        check(". ci/tests.sh\n(sh run.sh)", &["ci/tests.sh", "run.sh"]);
        check("make test", &["GNUmakefile", "makefile", "Makefile"]);
        check("nox -s x", &["noxfile.py"]);
    }

    #[test]
    fn files_only_read_are_not_started() {
        check("python3 -m pytest --doctest-modules pkg/core.py", &[]);
        check("cat run.sh", &[]);
        check("", &[]);
    }
}
