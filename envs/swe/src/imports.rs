//! Which new files Python would import in place of a task's tests, or of a module that it has elsewhere.
//!
//! Where it is asked for `a.b` it takes, in each folder of its path, the first of: a package `b/__init__.*`, an extension
//! module `b.*.so`, `b.py`. So a file that decides is replaced without being touched. Compiled files count for nothing
//! anyway (F3).
//!
//! Paths are relative to the repository's root, folders that imports begin in end with `/` or are empty.
//! Source: Python 3.13, `importlib._bootstrap_external.FileFinder.find_spec`.

use std::collections::{BTreeSet, HashSet};

/// Folders that programs are commonly started from.
const ROOTS: &[&str] = &["", "src/", "lib/"];

/// Reads names from standard input and prints those of modules that it has outside of the folders it is given. It runs
/// in a repository that no agent has seen.
pub(crate) const HAS_MODULES: &str = r#"
import sys
try:
    from importlib.machinery import PathFinder
except ImportError:
    sys.exit()
from os.path import realpath
roots = {realpath(root or ".") for root in sys.argv[1:]}
path = [entry for entry in sys.path if realpath(entry or ".") not in roots]
known = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
for name in sys.stdin.read().split():
    if name in known or PathFinder.find_spec(name, path) is not None:
        print(name)
"#;

/// What a task's tests are imported from.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Modules that are protected, without ending.
    modules: HashSet<String>,
    /// The folders above them.
    packages: HashSet<String>,
    /// As what, from where imports may begin, the tests that decide and their packages are imported.
    names: HashSet<String>,
    roots: BTreeSet<String>,
}

impl Imports {
    /// `files` are protected, `deciding` are those of them that hold the tests that decide; `base` has every path of the
    /// repository.
    pub(crate) fn new<'p>(
        files: impl IntoIterator<Item = &'p str>,
        deciding: &[String],
        base: &HashSet<Vec<u8>>,
    ) -> Self {
        let mut roots: BTreeSet<String> = ROOTS.iter().map(|&root| root.to_owned()).collect();
        let (mut modules, mut packages) = (HashSet::new(), HashSet::new());
        for module in files.into_iter().filter_map(|path| path.strip_suffix(".py")) {
            modules.insert(module.to_owned());
            for folder in folders_above(module) {
                let is_there = base.contains(folder.as_bytes());
                if packages.insert(folder.to_owned()) && is_there && !is_package(folder, base) {
                    roots.insert(format!("{folder}/"));
                }
            }
        }
        let deciding = deciding.iter().filter_map(|path| path.strip_suffix(".py"));
        let own = deciding.flat_map(|module| folders_above(module).chain([module]));
        let names = own.flat_map(|path| from_roots(path, &roots)).map(|(_, name)| name.to_owned()).collect();
        Self { modules, packages, names, roots }
    }

    /// The folders above the tests.
    pub(crate) fn packages(&self) -> &HashSet<String> {
        &self.packages
    }

    /// Folders that imports may begin in.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(String::as_str)
    }

    /// Whether a new file is imported in place of a test module beside it.
    pub(crate) fn replaces_test(&self, path: &str, is_link: bool) -> bool {
        modules_of(path, is_link).any(|module| self.modules.contains(module))
    }

    /// Whether a new file is imported in place of a package of tests, or ahead of what was none.
    pub(crate) fn replaces_package(&self, path: &str, is_link: bool, base: &HashSet<Vec<u8>>) -> bool {
        modules_of(path, is_link).any(|module| {
            if self.packages.contains(module) {
                // A package that only comes with the fix is the fix's own.
                return !path.starts_with(&format!("{module}/")) || base.contains(module.as_bytes());
            }
            let mut names = from_roots(module, &self.roots).map(|(_, name)| name);
            names.any(|name| self.names.contains(name)) && is_unknown(module, base)
        })
    }

    /// The name of a module that is new where imports begin.
    pub(crate) fn new_module<'p>(
        &self,
        path: &'p str,
        is_link: bool,
        base: &HashSet<Vec<u8>>,
    ) -> impl Iterator<Item = &'p str> {
        modules_of(path, is_link).filter(move |module| is_unknown(module, base)).filter_map(move |module| {
            let name = module.rfind('/').map_or(0, |at| at + 1);
            self.roots.contains(&module[..name]).then_some(&module[name..])
        })
    }
}

/// What Python imports a file as: paths without ending.
fn modules_of(path: &str, is_link: bool) -> impl Iterator<Item = &str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let start = path.len() - name.len();
    let stem = name.split('.').next().unwrap_or(name);
    let is_code = [".py", ".so", ".pyd"].iter().any(|ending| name.ends_with(ending));
    let module = match stem {
        "__init__" => folder,
        _ => &path[..start + stem.len()],
    };
    let module = (is_code && !module.is_empty()).then_some(module);
    // A link may lead to a package.
    module.into_iter().chain(is_link.then_some(path))
}

/// A path with each folder that imports may begin in and that it is in, and the rest of it.
fn from_roots<'p>(path: &'p str, roots: &BTreeSet<String>) -> impl Iterator<Item = (&'p str, &'p str)> {
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts
        .map(move |at| path.split_at(at))
        .filter(move |(root, name)| !name.is_empty() && roots.contains(*root))
}

fn is_package(folder: &str, base: &HashSet<Vec<u8>>) -> bool {
    base.contains(format!("{folder}/__init__.py").as_bytes())
}

fn is_unknown(module: &str, base: &HashSet<Vec<u8>>) -> bool {
    !["", ".py"].iter().any(|ending| base.contains(format!("{module}{ending}").as_bytes()))
}

/// `a/b` and `a` of `a/b/c`.
pub(crate) fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(move |(at, _)| &path[..at])
}
