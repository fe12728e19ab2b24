//! The workspace's manifests: members listed one by one; lints, versions and package fields inherited.

use toml_edit::Item;

use crate::manifest::{self, Manifest};
use crate::problem::Problem;
use crate::tree::Tree;

const INHERITED_FIELDS: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

/// Checks the root and every crate.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let parsed = manifest::crates(tree).and_then(|crates| {
        let root = tree.text(manifest::ROOT).unwrap_or_default();
        Ok((Manifest::parse(manifest::ROOT, root)?, crates))
    });
    match parsed {
        Ok((root, crates)) => {
            let mut problems = check_members(&root, &crates);
            problems.extend(crates.iter().flat_map(check_crate));
            problems
        }
        Err(problem) => vec![problem],
    }
}

fn check_members(root: &Manifest, crates: &[Manifest]) -> Vec<Problem> {
    let members = root.table("workspace").and_then(|table| table.get("members")).and_then(Item::as_array);
    let members: Vec<(&str, usize)> = members
        .into_iter()
        .flatten()
        .filter_map(|member| Some((member.as_str()?, root.value_line(member))))
        .collect();
    let mut problems = Vec::new();
    for &(member, line) in &members {
        if member.contains('*') {
            problems.push(Problem::new(&root.path, line, format!("list the members of {member} one by one")));
        } else if !crates.iter().any(|known| known.folder() == member) {
            problems.push(Problem::new(&root.path, line, format!("{member} has no Cargo.toml")));
        }
    }
    for known in crates {
        if !members.iter().any(|(member, _)| *member == known.folder()) {
            let line = root.table_line("workspace");
            problems.push(Problem::new(
                &root.path,
                line,
                format!("{} is not among the members", known.folder()),
            ));
        }
    }
    problems
}

fn check_crate(manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |line, message: String| problems.push(Problem::new(&manifest.path, line, message));
    let package = manifest.table("package");
    for field in INHERITED_FIELDS {
        if !package.and_then(|table| table.get(field)).is_some_and(manifest::is_inherited) {
            let line = package.map_or(1, |table| manifest.key_line(table, field));
            problem(line, format!("inherit it: {field}.workspace = true"));
        }
    }
    if manifest.table("lints").and_then(|table| table.get("workspace")).and_then(Item::as_bool) != Some(true)
    {
        problem(manifest.table_line("lints"), "inherit the lints: [lints] workspace = true".to_owned());
    }
    for dependency in manifest.dependencies().iter().filter(|dependency| !dependency.inherited) {
        problem(dependency.line, format!("inherit the version: {}.workspace = true", dependency.name));
    }
    problems
}

#[cfg(test)]
mod tests {
    use crate::tree::problems_of;

    const ROOT: &str = "[workspace]\nmembers = [\n  \"a\",\n]\n";
    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\
                        [dependencies]\nx = { workspace = true, features = [\"y\"] }\n\
                        [lints]\nworkspace = true\n";

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        assert_eq!(problems_of(super::check, files), expected);
    }

    #[test]
    fn a_proper_workspace_passes() {
        check(&[("Cargo.toml", ROOT), ("a/Cargo.toml", GOOD)], &[]);
    }

    #[test]
    fn members_are_listed_one_by_one() {
        let globbed = ROOT.replace("\"a\"", "\"*\"");
        check(
            &[("Cargo.toml", &globbed), ("a/Cargo.toml", GOOD)],
            &["Cargo.toml:3: list the members of * one by one", "Cargo.toml:1: a is not among the members"],
        );
        check(&[("Cargo.toml", ROOT)], &["Cargo.toml:3: a has no Cargo.toml"]);
    }

    #[test]
    fn fields_lints_and_versions_are_inherited() {
        let own = GOOD
            .replace("edition.workspace = true", "edition = \"2021\"")
            .replace("x = { workspace = true, features = [\"y\"] }", "x = \"1\"")
            .replace("[lints]\nworkspace = true\n", "");
        check(
            &[("Cargo.toml", ROOT), ("a/Cargo.toml", &own)],
            &[
                "a/Cargo.toml:4: inherit it: edition.workspace = true",
                "a/Cargo.toml:1: inherit the lints: [lints] workspace = true",
                "a/Cargo.toml:9: inherit the version: x.workspace = true",
            ],
        );
    }
}
