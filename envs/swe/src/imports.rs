//! New files that Python would import in place of a task's tests, or of a module that exists elsewhere.
//!
//! For `import a.b`, Python takes in each folder of its path the first of: a package `b/__init__.*`, an extension
//! module `b.*.so`, `b.py`. So a deciding file can be replaced without being touched. Compiled files never count (F3).
//!
//! Paths are relative to the repository's root; import roots end with `/` or are empty. Source: Python 3.13,
//! `importlib._bootstrap_external.FileFinder.find_spec`.

use std::collections::{BTreeSet, HashSet};

/// Folders from which programs are commonly started.
const ROOTS: &[&str] = &["", "src/", "lib/"];

/// Reads names from standard input and prints those of modules that exist outside the given folders. It runs in a
/// repository that no agent has used.
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

/// How a task's tests are imported.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Protected modules, without extension.
    modules: HashSet<String>,
    /// Their parent folders.
    packages: HashSet<String>,
    /// Names under which the deciding tests and their packages are imported from the import roots.
    names: HashSet<String>,
    roots: BTreeSet<String>,
}

impl Imports {
    /// `files` are protected, `deciding` are those that contain deciding tests; `base` has every path of the
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

    /// The parent folders of the tests.
    pub(crate) fn packages(&self) -> &HashSet<String> {
        &self.packages
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(String::as_str)
    }

    /// Whether a new file is imported in place of a test module beside it.
    pub(crate) fn replaces_test(&self, path: &str, is_link: bool) -> bool {
        modules_of(path, is_link).any(|module| self.modules.contains(module))
    }

    /// Whether a new file is imported in place of a test package, or ahead of a folder that was not a package.
    pub(crate) fn replaces_package(&self, path: &str, is_link: bool, base: &HashSet<Vec<u8>>) -> bool {
        modules_of(path, is_link).any(|module| {
            if self.packages.contains(module) {
                // A package that only comes with the fix belongs to the fix.
                return !path.starts_with(&format!("{module}/")) || base.contains(module.as_bytes());
            }
            let mut names = from_roots(module, &self.roots).map(|(_, name)| name);
            names.any(|name| self.names.contains(name)) && is_unknown(module, base)
        })
    }

    /// The name of a module that is new at an import root.
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

/// Module paths, without extension, under which Python imports a file.
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

/// A path relative to each import root that contains it, with that root.
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
