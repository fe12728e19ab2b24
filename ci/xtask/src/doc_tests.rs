//! Finds the crates with doc tests, because `cargo test --doc` builds every requested crate, even one without doc tests.

use crate::manifest;
use crate::problem::Problem;
use crate::tree::Tree;

/// Words behind a fence with which rustdoc still takes the block for Rust.
const RUST_WORDS: [&str; 5] = ["rust", "should_panic", "no_run", "compile_fail", "edition2024"];

/// Names of the packages with a doc test, in the order of the tree.
pub(crate) fn packages(tree: &Tree) -> Result<Vec<String>, Problem> {
    let crates = manifest::crates(tree)?;
    let has_test = |folder: &str| {
        let sources = format!("{folder}/src/");
        tree.rust_files().any(|(path, text)| path.starts_with(&sources) && has_doc_test(text))
    };
    let named =
        crates.iter().filter(|known| has_test(known.folder())).filter_map(|known| known.package_name());
    Ok(named.map(str::to_owned).collect())
}

fn has_doc_test(source: &str) -> bool {
    let docs = source
        .lines()
        .map(str::trim_start)
        .filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim));
    let mut open = false;
    for fence in docs.filter_map(|line| line.strip_prefix("```")) {
        open = !open;
        let mut words = fence.split([',', ' ']).filter(|word| !word.is_empty());
        if open && words.all(|word| RUST_WORDS.contains(&word)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: bool) {
        assert_eq!(has_doc_test(source), expected, "{source}");
    }

    #[test]
    fn fenced_rust_in_docs_is_a_doc_test() {
        check("/// ```\n/// f();\n/// ```\nfn f() {}", true);
        check("    //! ```rust,no_run\n    //! f();\n    //! ```", true);
        check("/// ```text\n/// a\n/// ```\n/// ```\n/// f();\n/// ```", true);
        check("/// ```text\n/// a\n/// ```", false);
        check("/// ```sh\n/// ls\n/// ```\nfn f() {}", false);
        check("// ```\n// f();\n// ```", false);
        check("/// Nothing.", false);
    }

    #[test]
    fn packages_with_doc_tests_are_listed() {
        let manifest = |name: &str| format!("[package]\nname = \"{name}\"\n");
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\n"),
            ("a/Cargo.toml", &manifest("clawrl-a")),
            ("a/src/lib.rs", "/// ```\n/// f();\n/// ```\nfn f() {}"),
            ("b/Cargo.toml", &manifest("clawrl-b")),
            ("b/src/lib.rs", "/// Nothing.\nfn f() {}"),
        ]);
        assert_eq!(packages(&tree).map_err(|problem| problem.to_string()), Ok(vec!["clawrl-a".to_owned()]));
    }
}
