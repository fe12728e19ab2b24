//! Which files of a submission count.
//!
//! F1. Files that decide, and files by which a runner could be turned, are as the task has them. F2. Tests that an agent
//! wrote for itself are no part of a fix: they stay out, and nobody minds. F3. What is nobody's source, such as compiled
//! Python, stays out: a cache may claim to be that of any source.
//!
//! Paths are bytes, relative to the repository's root. Pure; nothing to cancel.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clawrl_core::{Boundary, Fault, LogParser};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::resolution::ExpectedTests;

/// What becomes of a changed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is part of the submission.
    Kept,
    /// It stays out.
    LeftOut,
    /// It stays out, and the attempt is flagged.
    Tampered,
}

/// How a path was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    ChangedOrDeleted,
}

/// What cannot be changed.
#[derive(Debug)]
pub(crate) struct Protection {
    /// Files of the task: whoever touches one is flagged.
    decisive: GlobSet,
    /// Looks like a test.
    tests: GlobSet,
    /// Nobody's source.
    caches: GlobSet,
    /// Files that the task lays over the repository, and the folders above them.
    laid: HashSet<String>,
    above: HashSet<String>,
    /// Whether modules at the root shadow those of the interpreter.
    shadows: bool,
}

/// By what a runner of Python is configured or extended.
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
];
const PYTHON_TESTS: &[&str] =
    &["tests/**", "**/tests/**", "test/**", "**/test_*.py", "**/*_test.py", "**/tests.py"];
const PYTHON_CACHES: &[&str] =
    &["**/__pycache__/**", "**/*.pyc", "**/*.pyo", "**/.pytest_cache/**", "**/.mypy_cache/**"];

/// Modules of the standard library and of runners that are written in Python and imported by name: a file of that name
/// where programs are started from is imported instead.
const SHADOWED: &[&str] = &[
    "__future__",
    "_collections_abc",
    "_pytest",
    "_weakrefset",
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "atexit",
    "attr",
    "base64",
    "bdb",
    "bisect",
    "builtins",
    "bz2",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "coverage",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "email",
    "encodings",
    "enum",
    "errno",
    "exceptiongroup",
    "execnet",
    "faulthandler",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "importlib",
    "iniconfig",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "marshal",
    "math",
    "mimetypes",
    "multiprocessing",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "packaging",
    "pathlib",
    "pdb",
    "pickle",
    "pkgutil",
    "platform",
    "pluggy",
    "posixpath",
    "pprint",
    "profile",
    "py",
    "pydoc",
    "pygments",
    "pytest",
    "queue",
    "quopri",
    "random",
    "re",
    "reprlib",
    "runpy",
    "sched",
    "select",
    "selectors",
    "shlex",
    "shutil",
    "signal",
    "site",
    "socket",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "symtable",
    "sys",
    "sysconfig",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "xdist",
    "xml",
    "zipfile",
    "zipimport",
    "zlib",
];

/// Folders that programs are commonly started from.
const ROOTS: &[&str] = &["", "src/", "lib/"];

impl Protection {
    /// Of a task: its own patterns, its tests by name, the files that it lays over and those that its patch touches.
    ///
    /// # Errors
    /// A permanent [`Fault`] when a pattern of the task is none.
    pub(crate) fn new(
        parser: LogParser,
        patterns: &[String],
        expected: &ExpectedTests,
        files: impl IntoIterator<Item = String>,
    ) -> Result<Self, Fault> {
        let (runner, tests, caches): (&[&str], &[&str], &[&str]) = match parser {
            LogParser::Pytest | LogParser::Unittest => (PYTHON_RUNNER, PYTHON_TESTS, PYTHON_CACHES),
            LogParser::Cargo => (&[".cargo/**"], &["tests/**", "**/tests/**"], &["target/**"]),
            LogParser::Go => (&[], &["**/*_test.go", "**/testdata/**"], &[]),
            LogParser::Jest => (
                &["**/jest.config.*", "**/jest.setup.*", ".babelrc", "**/babel.config.*"],
                &["**/__tests__/**", "**/*.test.*", "**/*.spec.*", "**/__snapshots__/**"],
                &["**/node_modules/**"],
            ),
        };
        let files: Vec<String> = files.into_iter().collect();
        let ancestors = |path: &String| -> Vec<String> {
            path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
        };
        let above = files.iter().flat_map(ancestors).collect();
        let laid = files.iter().cloned().collect();
        let named = files.into_iter().chain(of_tests(parser, expected)).map(|path| escaped(&path));
        let own =
            runner.iter().map(|&pattern| pattern.to_owned()).chain(patterns.iter().cloned()).chain(named);
        let literal =
            |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>();
        Ok(Self {
            decisive: set(own)?,
            tests: set(literal(tests))?,
            caches: set(literal(caches))?,
            laid,
            above,
            shadows: matches!(parser, LogParser::Pytest | LogParser::Unittest),
        })
    }

    /// What becomes of a changed path. `base` has the names at the repository's root and in its folders of sources.
    pub(crate) fn fate(&self, path: &[u8], change: Change, base: &HashSet<Vec<u8>>) -> Fate {
        let shown = Path::new(OsStr::from_bytes(path));
        let is_new = change == Change::Added;
        if self.decisive.is_match(shown)
            || (is_new && (self.is_shadow(path, base) || self.is_in_the_way(path)))
        {
            return Fate::Tampered;
        }
        if self.caches.is_match(shown) {
            return Fate::LeftOut;
        }
        match (self.tests.is_match(shown), change) {
            (true, Change::Added) => Fate::LeftOut,
            (true, Change::ChangedOrDeleted) => Fate::Tampered,
            (false, _) => Fate::Kept,
        }
    }

    /// Whether the task lays files into a folder at this path, or a file at the path of a folder above.
    fn is_in_the_way(&self, path: &[u8]) -> bool {
        let Ok(path) = std::str::from_utf8(path) else { return false };
        self.above.contains(path) || path.match_indices('/').any(|(at, _)| self.laid.contains(&path[..at]))
    }

    /// A module of a name that the repository does not have there already.
    fn is_shadow(&self, path: &[u8], base: &HashSet<Vec<u8>>) -> bool {
        let Ok(path) = std::str::from_utf8(path) else { return false };
        // Extension modules are imported as well.
        if !self.shadows || !(path.ends_with(".py") || path.ends_with(".so")) {
            return false;
        }
        ROOTS.iter().filter_map(|root| Some((root, path.strip_prefix(root)?))).any(|(root, inner)| {
            let name = inner.split(['/', '.']).next().unwrap_or(inner);
            let known = |ending: &str| base.contains(format!("{root}{name}{ending}").as_bytes());
            SHADOWED.binary_search(&name).is_ok() && !known("") && !known(".py")
        })
    }
}

/// Files that names of tests name.
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

/// `test_x (tests.test_a.A.test_x)`: some beginning of the dotted name is a file.
fn modules(name: &str) -> Vec<String> {
    let Some((_, dotted)) = name.split_once('(') else { return Vec::new() };
    let parts: Vec<&str> = dotted.trim_end_matches(')').split('.').collect();
    // The last part is a class or a test.
    (1..parts.len())
        .map(|count| format!("{}.py", parts[..count].join("/")))
        .flat_map(|path| [format!("tests/{path}"), format!("test/{path}"), path])
        .collect()
}

/// A pattern for this one path.
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

    fn protection(parser: LogParser) -> Protection {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let expected = ExpectedTests {
            fail_to_pass: names(&["checks/unit.py::test_a[x]", "test_b (suite.part.B.test_b)"]),
            pass_to_pass: Vec::new(),
        };
        Protection::new(parser, &["docs/*.md".to_owned()], &expected, ["laid/[a].txt".to_owned()]).unwrap()
    }

    fn check(parser: LogParser, path: &str, added: Fate, changed: Fate) {
        let protection = protection(parser);
        let base = ["src/attr", "coverage.py"].map(|name| name.as_bytes().to_vec()).into();
        let found = [Change::Added, Change::ChangedOrDeleted]
            .map(|change| protection.fate(path.as_bytes(), change, &base));
        assert_eq!(found, [added, changed], "{path}");
    }

    #[test]
    fn what_counts() {
        use Fate::{Kept, LeftOut, Tampered};
        use LogParser::{Cargo, Go, Jest, Pytest, Unittest};
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
        check(Unittest, "suite/part.py", Tampered, Tampered);
        check(Unittest, "tests/suite/part.py", Tampered, Tampered);
        // F2.
        check(Pytest, "pkg/tests/test_new.py", LeftOut, Tampered);
        check(Go, "a/b_test.go", LeftOut, Tampered);
        check(Jest, "src/a.test.tsx", LeftOut, Tampered);
        check(Cargo, "tests/it/a.rs", LeftOut, Tampered);
        check(Cargo, "pkg/test_a.py", Kept, Kept);
        // F3.
        check(Pytest, "pkg/__pycache__/core.cpython-311.pyc", LeftOut, LeftOut);
        check(Pytest, "tests/__pycache__/test_a.cpython-311.pyc", LeftOut, LeftOut);
    }

    #[test]
    fn modules_that_would_be_imported_instead_are_tampering() {
        use Fate::{Kept, Tampered};
        for path in [
            "unittest.py",
            "unittest/__init__.py",
            "src/json.py",
            "lib/re/x.py",
            "random.cpython-311-x86_64-linux-gnu.so",
        ] {
            check(LogParser::Unittest, path, Tampered, Kept);
        }
        for path in [
            "pkg/json.py",
            "jsonx.py",
            "random.bin",
            "re",
            "src/attr/_new.py",
            "coverage.py",
            "email/template.txt",
            "unittest_helpers.py",
        ] {
            check(LogParser::Unittest, path, Kept, Kept);
        }
        check(LogParser::Go, "json.py", Kept, Kept);
    }

    #[test]
    fn the_list_of_modules_is_in_order() {
        assert!(SHADOWED.is_sorted());
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let refused = Protection::new(LogParser::Go, &["a[".to_owned()], &ExpectedTests::default(), []);
        assert_eq!(refused.unwrap_err().code, "protected");
    }
}
