//! The manifests of the workspace's crates, with the line numbers that rules report.

use toml_edit::{Document, Item, TableLike, Value};

use crate::problem::Problem;
use crate::tree::Tree;

/// The workspace's own manifest.
pub(crate) const ROOT: &str = "Cargo.toml";

/// A `Cargo.toml`.
pub(crate) struct Manifest {
    pub(crate) path: String,
    document: Document<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Normal,
    Dev,
    Build,
}

/// One line of a dependency table.
pub(crate) struct Dependency {
    /// The key, which is the name the workspace gives it.
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) line: usize,
    /// Whether it takes its version from the workspace.
    pub(crate) inherited: bool,
}

const SECTIONS: [(&str, Section); 3] = [
    ("dependencies", Section::Normal),
    ("dev-dependencies", Section::Dev),
    ("build-dependencies", Section::Build),
];

/// The manifests of all crates, except the root; or the problem of the first that cannot be parsed.
pub(crate) fn crates(tree: &Tree) -> Result<Vec<Manifest>, Problem> {
    tree.text_files()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .map(|(path, text)| Manifest::parse(path, text))
        .collect()
}

impl Manifest {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Problem> {
        match Document::parse(text.to_owned()) {
            Ok(document) => Ok(Self { path: path.to_owned(), document }),
            Err(error) => {
                let line = line_of(text, error.span().map_or(0, |span| span.start));
                Err(Problem::new(path, line, error.message()))
            }
        }
    }

    /// The crate's folder, from the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.strip_suffix("/Cargo.toml").unwrap_or("")
    }

    /// The name of the crate in ARCHITECTURE.md: the name of its folder.
    pub(crate) fn short_name(&self) -> &str {
        self.folder().rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn package_name(&self) -> Option<&str> {
        self.table("package")?.get("name")?.as_str()
    }

    pub(crate) fn table(&self, name: &str) -> Option<&dyn TableLike> {
        self.document.get(name)?.as_table_like()
    }

    /// The line of `[name]`, or the first line if there is none.
    pub(crate) fn table_line(&self, name: &str) -> usize {
        self.line(self.document.get(name).and_then(Item::span))
    }

    /// The line of `key` in `table`.
    pub(crate) fn key_line(&self, table: &dyn TableLike, key: &str) -> usize {
        self.line(table.key(key).and_then(|key| key.span()))
    }

    /// The line of an entry of an array.
    pub(crate) fn value_line(&self, value: &Value) -> usize {
        self.line(value.span())
    }

    /// Every dependency, those for some targets only included.
    pub(crate) fn dependencies(&self) -> Vec<Dependency> {
        let mut places: Vec<&dyn TableLike> = vec![self.document.as_table()];
        if let Some(targets) = self.table("target") {
            places.extend(targets.iter().filter_map(|(_, target)| target.as_table_like()));
        }
        let mut found = Vec::new();
        for place in places {
            for (key, section) in SECTIONS {
                let Some(table) = place.get(key).and_then(Item::as_table_like) else { continue };
                found.extend(table.iter().map(|(name, item)| Dependency {
                    name: name.to_owned(),
                    section,
                    line: self.key_line(table, name),
                    inherited: is_inherited(item),
                }));
            }
        }
        found
    }

    fn line(&self, span: Option<std::ops::Range<usize>>) -> usize {
        line_of(self.document.raw(), span.map_or(0, |span| span.start))
    }
}

/// Is this `{ workspace = true }`, however it is spelled?
pub(crate) fn is_inherited(item: &Item) -> bool {
    item.as_table_like().and_then(|table| table.get("workspace")).and_then(Item::as_bool) == Some(true)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Section, usize, bool)]) {
        let Ok(manifest) = Manifest::parse("a/b/Cargo.toml", text) else { panic!("{text:?} is valid") };
        let found = manifest.dependencies();
        let found: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.section, d.line, d.inherited)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn dependencies_are_found_in_every_section_and_spelling() {
        check("", &[]);
        check(
            "[dependencies]\na.workspace = true\nb = { workspace = true, features = [] }\n\
             [dev-dependencies]\nc = \"1\"\n[target.'cfg(unix)'.dependencies]\nd.workspace = true\n",
            &[
                ("a", Section::Normal, 2, true),
                ("b", Section::Normal, 3, true),
                ("c", Section::Dev, 5, false),
                ("d", Section::Normal, 7, true),
            ],
        );
    }

    #[test]
    fn a_broken_manifest_is_a_problem_with_its_line() {
        let problem = Manifest::parse("a/Cargo.toml", "[package]\nname = \n").err().map(|p| p.to_string());
        assert!(problem.is_some_and(|text| text.starts_with("a/Cargo.toml:2: ")));
    }
}
