//! Decides which files of a submission count.
//!
//! F1. Deciding files, files that would be read, run or imported in their place, and files that could reconfigure a
//! runner are restored to the task's versions.
//! F2. Tests that an agent wrote for itself are not part of a fix: they are left out without a flag.
//! F3. Generated files, such as compiled Python, are left out: a cache may claim to belong to any source.
//!
//! Paths are bytes, relative to the repository's root. Pure; nothing to cancel.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clawrl_core::{Boundary, Fault, LogParser};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::imports::{Imports, folders_above};
use crate::resolution::ExpectedTests;
use crate::test_command::started;

/// How a changed path is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathDisposition {
    Kept,
    Excluded,
    /// Left out, and the attempt is flagged.
    Tampered,
}

/// How a path was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    /// Added as a symbolic link.
    AddedLink,
    ChangedOrDeleted,
}

/// Protected paths of a task.
#[derive(Debug)]
pub(crate) struct Protection<'a> {
    /// The task's deciding files: touching one is flagged.
    decisive: GlobSet,
    /// Paths that look like tests.
    tests: GlobSet,
    /// Generated files.
    caches: GlobSet,
    /// Files that the task writes over the repository, and their parent folders.
    laid: HashSet<String>,
    above: HashSet<String>,
    /// How the tests are imported, if known.
    imports: Option<Imports>,
    /// Every path of the repository.
    base: &'a HashSet<Vec<u8>>,
}

/// Files that configure or extend a Python test runner.
const PYTHON_RUNNER: &[&str] = &[
    "**/conftest.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "**/*.pth",
    "**/pytest.ini",
    "**/.pytest.ini",
    "**/pytest.toml",
    "**/.pytest.toml",
    "**/tox.ini",
    "**/.coveragerc",
    // Python discovers plugins by it.
    "**/*.egg-info/entry_points.txt",
    "**/*.dist-info/entry_points.txt",
];
const PYTHON_TESTS: &[&str] =
    &["tests/**", "**/tests/**", "test/**", "**/test_*.py", "**/*_test.py", "**/tests.py"];
const PYTHON_CACHES: &[&str] = &[
    "**/__pycache__/**",
    "**/*.pyc",
    "**/*.pyo",
    "**/.pytest_cache/**",
    "**/.mypy_cache/**",
    "**/*.egg-info/**",
];

/// A task's description of its tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestDeclaration<'a> {
    pub(crate) parser: LogParser,
    pub(crate) run: &'a str,
    pub(crate) patterns: &'a [String],
    pub(crate) expected: &'a ExpectedTests,
}

impl<'a> Protection<'a> {
    /// For a task; `files` are those that it writes over the repository and those that its patch touches, `base` has
    /// every path of the repository.
    ///
    /// # Errors
    /// A permanent [`Fault`] when a pattern of the task is invalid.
    pub(crate) fn new(
        deciding: TestDeclaration<'_>,
        files: impl IntoIterator<Item = String>,
        base: &'a HashSet<Vec<u8>>,
    ) -> Result<Self, Fault> {
        let TestDeclaration { parser, run, patterns, expected } = deciding;
        let (runner, tests, caches): (&[&str], &[&str], &[&str]) = match parser {
            LogParser::Pytest | LogParser::Unittest => (PYTHON_RUNNER, PYTHON_TESTS, PYTHON_CACHES),
            LogParser::Cargo => (
                &["**/.cargo/**", "**/rust-toolchain", "**/rust-toolchain.toml"],
                &["tests/**", "**/tests/**"],
                &["target/**"],
            ),
            LogParser::Go => (&["go.work"], &["**/*_test.go", "**/testdata/**"], &[]),
            LogParser::Jest => (
                &[
                    "**/jest.config.*",
                    "**/jest.setup.*",
                    "**/.babelrc",
                    "**/.babelrc.*",
                    "**/babel.config.*",
                    "**/.swcrc",
                    "**/.npmrc",
                ],
                // Mocks beside a module, or beside `node_modules`, are used in its place.
                &["**/__tests__/**", "**/*.test.*", "**/*.spec.*", "**/__snapshots__/**", "**/__mocks__/**"],
                &["**/node_modules/**"],
            ),
        };
        let laid: HashSet<String> = files.into_iter().collect();
        let above = laid.iter().flat_map(|path| folders_above(path)).map(str::to_owned).collect();
        let is_there = |path: &String| laid.contains(path) || base.contains(path.as_bytes());
        let deciding: Vec<String> =
            of_tests(parser, expected).into_iter().chain(started(run, base)).collect();
        let tests = set(tests.iter().map(|&pattern| pattern.to_owned()))?;
        let own = runner.iter().map(|&pattern| pattern.to_owned()).chain(patterns.iter().cloned());
        let mut decisive: Vec<String> =
            own.chain(laid.iter().chain(&deciding).map(|path| escaped(path))).collect();
        let mut imports = None;
        if matches!(parser, LogParser::Pytest | LogParser::Unittest) {
            let decide = set(decisive.iter().cloned())?;
            let there = || base.iter().filter_map(|path| std::str::from_utf8(path).ok());
            let protected = there().filter(|path| decide.is_match(path) || tests.is_match(path));
            let files = protected.chain(laid.iter().map(String::as_str));
            let deciding: Vec<String> = deciding.into_iter().filter(is_there).collect();
            let found = Imports::new(files, &deciding, base);
            let sources = there().filter(|path| !decide.is_match(path) && !tests.is_match(path));
            decisive.extend(packages_of_tests(&found, sources, base).map(|path| escaped(&path)));
            imports = Some(found);
        }
        Ok(Self {
            decisive: set(decisive)?,
            tests,
            caches: set(caches.iter().map(|&pattern| pattern.to_owned()))?,
            laid,
            above,
            imports,
            base,
        })
    }

    /// How a changed path is treated. `installed` has the names of [`Self::new_module`] that are modules without the
    /// submission.
    pub(crate) fn disposition(
        &self,
        path: &[u8],
        change: Change,
        installed: &HashSet<String>,
    ) -> PathDisposition {
        let shown = Path::new(OsStr::from_bytes(path));
        let is_new = change != Change::ChangedOrDeleted;
        let is_link = change == Change::AddedLink;
        // A task cannot name a module whose name is not UTF-8.
        let imported = self.imports.as_ref().filter(|_| is_new).zip(std::str::from_utf8(path).ok());
        if self.decisive.is_match(shown)
            || (is_new && self.is_in_the_way(path))
            || imported.is_some_and(|(imports, path)| imports.replaces_test(path, is_link))
        {
            return PathDisposition::Tampered;
        }
        if self.caches.is_match(shown) {
            return PathDisposition::Excluded;
        }
        if self.tests.is_match(shown) {
            return if is_new { PathDisposition::Excluded } else { PathDisposition::Tampered };
        }
        let replaces = imported.is_some_and(|(imports, path)| {
            imports.replaces_package(path, is_link, self.base)
                || imports.new_module(path, is_link, self.base).any(|name| installed.contains(name))
        });
        if replaces { PathDisposition::Tampered } else { PathDisposition::Kept }
    }

    /// The name under which a changed path is imported from an import root, if the repository has no module of that
    /// name there.
    pub(crate) fn new_module<'p>(&self, path: &'p [u8], change: Change) -> Vec<&'p str> {
        let Some((imports, path)) = self.imports.as_ref().zip(std::str::from_utf8(path).ok()) else {
            return Vec::new();
        };
        match change {
            Change::ChangedOrDeleted => Vec::new(),
            _ => imports.new_module(path, change == Change::AddedLink, self.base).collect(),
        }
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().flat_map(Imports::roots)
    }

    /// Whether the task writes files into a folder at this path, or a file at the path of a parent folder.
    fn is_in_the_way(&self, path: &[u8]) -> bool {
        let Ok(path) = std::str::from_utf8(path) else { return false };
        self.above.contains(path) || path.match_indices('/').any(|(at, _)| self.laid.contains(&path[..at]))
    }
}

/// The `__init__.py` of each package that contains only tests: it runs before them, and is the source of nothing else.
fn packages_of_tests<'p>(
    imports: &'p Imports,
    sources: impl Iterator<Item = &'p str>,
    base: &HashSet<Vec<u8>>,
) -> impl Iterator<Item = String> {
    let sources = sources.filter(|path| path.ends_with(".py") && !path.ends_with("/__init__.py"));
    let with_source: HashSet<&str> = sources.flat_map(folders_above).collect();
    let only_tests = imports.packages().iter().filter(move |folder| !with_source.contains(folder.as_str()));
    only_tests
        .map(|folder| format!("{folder}/__init__.py"))
        .filter(move |path| base.contains(path.as_bytes()))
}

/// Files named by test names.
fn of_tests(parser: LogParser, expected: &ExpectedTests) -> Vec<String> {
    let mut paths: Vec<String> = expected
        .fail_to_pass
        .iter()
        .chain(&expected.pass_to_pass)
        .flat_map(|name| match parser {
            LogParser::Pytest => name.split_once("::").map(|(path, _)| path.to_owned()).into_iter().collect(),
            LogParser::Unittest => modules(name),
            LogParser::Cargo | LogParser::Go | LogParser::Jest => Vec::new(),
        })
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// `test_x (tests.test_a.A.test_x)`: some prefix of the dotted name is a file.
fn modules(name: &str) -> Vec<String> {
    let Some((_, dotted)) = name.split_once('(') else { return Vec::new() };
    let parts: Vec<&str> = dotted.trim_end_matches(')').split('.').collect();
    // The last part is a class or a test.
    (1..parts.len())
        .map(|count| format!("{}.py", parts[..count].join("/")))
        .flat_map(|path| [format!("tests/{path}"), format!("test/{path}"), path])
        .collect()
}

/// A pattern for exactly this path.
fn escaped(path: &str) -> String {
    path.chars().fold(String::new(), |mut pattern, char| {
        if "*?[]{}\\".contains(char) {
            pattern.extend(['\\', char]);
        } else {
            pattern.push(char);
        }
        pattern
    })
}

fn set(patterns: impl IntoIterator<Item = String>) -> Result<GlobSet, Fault> {
    let invalid = |error: globset::Error| {
        Fault::permanent(Boundary::Grader, "protected", format!("`protected`: {error}"))
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
        set.add(glob.map_err(invalid)?);
    }
    set.build().map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn paths(paths: &[&str]) -> HashSet<Vec<u8>> {
        paths.iter().map(|path| path.as_bytes().to_vec()).collect()
    }

    /// How a path is treated in a repository with tests in `checks`, which is not a package, and in `suite`, which is
    /// one.
    fn dispositions(parser: LogParser, path: &str) -> [PathDisposition; 2] {
        let fail_to_pass = match parser {
            LogParser::Unittest => names(&["test_a (checks.unit.A.test_a)", "test_b (suite.part.B.test_b)"]),
            _ => names(&["checks/unit.py::test_a[x]", "suite/part.py::test_b"]),
        };
        let expected = ExpectedTests { fail_to_pass, pass_to_pass: Vec::new() };
        let patterns = names(&["docs/*.md"]);
        let deciding =
            TestDeclaration { parser, run: "sh ci/run.sh", patterns: &patterns, expected: &expected };
        let base = paths(&[
            "ci/run.sh",
            "checks",
            "checks/unit.py",
            "suite",
            "suite/__init__.py",
            "suite/part.py",
            "pkg",
            "pkg/__init__.py",
            "pkg/core.py",
            "src",
            "src/attr",
            "coverage.py",
        ]);
        let protection = Protection::new(deciding, ["laid/[a].txt".to_owned()], &base).unwrap();
        let installed = names(&["json", "unittest", "attr", "coverage", "email"]).into_iter().collect();
        [Change::Added, Change::ChangedOrDeleted]
            .map(|change| protection.disposition(path.as_bytes(), change, &installed))
    }

    fn check(parser: LogParser, path: &str, added: PathDisposition, changed: PathDisposition) {
        assert_eq!(dispositions(parser, path), [added, changed], "{path}");
    }

    #[test]
    fn source_changes_count() {
        use LogParser::{Cargo, Go, Jest, Pytest, Unittest};
        use PathDisposition::{Excluded, Kept, Tampered};
        check(Pytest, "pkg/core.py", Kept, Kept);
        check(Pytest, "pkg/testing.py", Kept, Kept);
        // F1.
        check(Pytest, "checks/unit.py", Tampered, Tampered);
        check(Pytest, "a/conftest.py", Tampered, Tampered);
        check(Pytest, "conftest.py", Tampered, Tampered);
        check(Pytest, "docs/a.md", Tampered, Tampered);
        check(Pytest, "docs/a/b.md", Kept, Kept);
        check(Pytest, "laid/[a].txt", Tampered, Tampered);
        check(Pytest, "laid/a.txt", Kept, Kept);
        check(Pytest, "laid", Tampered, Kept);
        check(Pytest, "laid/[a].txt/x", Tampered, Kept);
        check(Pytest, "a/pytest.toml", Tampered, Tampered);
        check(Pytest, "evil.egg-info/entry_points.txt", Tampered, Tampered);
        check(Pytest, "suite/__init__.py", Tampered, Tampered);
        check(Pytest, "pkg/__init__.py", Kept, Kept);
        check(Go, "ci/run.sh", Tampered, Tampered);
        check(Jest, "pkg/.babelrc", Tampered, Tampered);
        check(Cargo, "pkg/.cargo/config.toml", Tampered, Tampered);
        check(Unittest, "suite/part.py", Tampered, Tampered);
        check(Unittest, "tests/suite/part.py", Tampered, Tampered);
        // F2.
        check(Pytest, "pkg/tests/test_new.py", Excluded, Tampered);
        check(Go, "a/b_test.go", Excluded, Tampered);
        check(Jest, "src/a.test.tsx", Excluded, Tampered);
        check(Jest, "__mocks__/fs.js", Excluded, Tampered);
        check(Cargo, "tests/it/a.rs", Excluded, Tampered);
        check(Cargo, "pkg/test_a.py", Kept, Kept);
        // F3.
        check(Pytest, "pkg/__pycache__/core.cpython-311.pyc", Excluded, Excluded);
        check(Pytest, "tests/__pycache__/test_a.cpython-311.pyc", Excluded, Excluded);
    }

    #[test]
    fn shadowing_modules_are_tampering() {
        use PathDisposition::{Kept, Tampered};
        for path in [
            // Of the library, or installed.
            "unittest.py",
            "unittest/__init__.py",
            "src/json.py",
            "lib/json/__init__.py",
            "json.cpython-311-x86_64-linux-gnu.so",
            "checks/json.py",
            // A test module itself.
            "checks/unit/__init__.py",
            "checks/unit/__init__.abi3.so",
            "checks/unit.cpython-311-x86_64-linux-gnu.so",
            "suite/part/__init__.py",
            "unit.py",
            "src/suite/__init__.py",
            "lib/suite.py",
            // Its folder.
            "checks.py",
            "checks/__init__.py",
            "checks.abi3.so",
            "suite.py",
        ] {
            assert_eq!(dispositions(LogParser::Unittest, path)[0], Tampered, "{path}");
            check(LogParser::Pytest, path, Tampered, Kept);
        }
        for path in [
            "pkg/json.py",
            "pkg/unit.py",
            "jsonx.py",
            "json.bin",
            "checks/unit/data.txt",
            "checks/units.py",
            "re",
            "src/attr/_new.py",
            "coverage.py",
            "email/template.txt",
            "unittest_helpers.py",
            "new/__init__.py",
        ] {
            check(LogParser::Unittest, path, Kept, Kept);
        }
        check(LogParser::Go, "json.py", Kept, Kept);
    }

    #[test]
    fn link_counts_as_its_possible_target() {
        let expected =
            ExpectedTests { fail_to_pass: names(&["checks/unit.py::a"]), ..ExpectedTests::default() };
        let deciding =
            TestDeclaration { parser: LogParser::Pytest, run: "", patterns: &[], expected: &expected };
        let base = paths(&["checks", "checks/unit.py"]);
        let protection = Protection::new(deciding, [], &base).unwrap();
        let installed = HashSet::from(["json".to_owned()]);
        for (path, disposition) in [
            ("checks/unit", PathDisposition::Tampered),
            ("json", PathDisposition::Tampered),
            ("docs", PathDisposition::Kept),
        ] {
            assert_eq!(
                protection.disposition(path.as_bytes(), Change::AddedLink, &installed),
                disposition,
                "{path}"
            );
            assert_eq!(
                protection.disposition(path.as_bytes(), Change::Added, &installed),
                PathDisposition::Kept,
                "{path}"
            );
        }
        assert_eq!(protection.new_module(b"json", Change::AddedLink), ["json"]);
        assert_eq!(protection.new_module(b"json", Change::Added), [""; 0]);
    }

    /// The fix creates a package of its own, into which the task writes tests.
    #[test]
    fn new_package_with_task_tests_is_allowed() {
        let expected = ExpectedTests::default();
        let deciding =
            TestDeclaration { parser: LogParser::Pytest, run: "", patterns: &[], expected: &expected };
        let base = paths(&["pkg", "pkg/__init__.py", "pkg/core.py"]);
        let laid = ["pkg/new/tests/test_new.py".to_owned()];
        let protection = Protection::new(deciding, laid, &base).unwrap();
        for path in ["pkg/new/__init__.py", "pkg/new/json.py"] {
            assert_eq!(
                protection.disposition(path.as_bytes(), Change::Added, &HashSet::from(["json".to_owned()])),
                PathDisposition::Kept,
                "{path}"
            );
        }
    }

    #[test]
    fn invalid_pattern_is_refused() {
        let (patterns, expected) = (names(&["a["]), ExpectedTests::default());
        let deciding =
            TestDeclaration { parser: LogParser::Go, run: "", patterns: &patterns, expected: &expected };
        let base = HashSet::new();
        let refused = Protection::new(deciding, [], &base);
        assert_eq!(refused.unwrap_err().code, "protected");
    }
}
