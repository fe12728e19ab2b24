//! The shape of a module: a header that states its purpose, a limited size, a specific name;
//! `lib.rs` and `mod.rs` only list modules and exports.

use crate::problem::Problem;
use crate::rust_text::RustText;
use crate::tree::Tree;

/// Maximum number of lines of a file, including comments and blank lines.
const MAX_LINES: usize = 800;
/// Lines of code, without comments and blank lines, above which a file should be reviewed.
const ADVISED_CODE_LINES: usize = 400;
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "manager", "misc", "prelude"];

/// Checks every source file of our crates. Of test files, only the name is checked.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust_files() {
        problems.extend(check_name(path));
        if is_test(path) {
            continue;
        }
        problems.extend(check_header(path, text));
        problems.extend(check_size(path, text));
        if path.ends_with("/lib.rs") || path.ends_with("/mod.rs") {
            problems.extend(check_lists_only(path, &RustText::new(text)));
        }
    }
    problems
}

/// Files longer than advised, as (path, lines of code). They are reported, not refused.
pub(crate) fn longer_than_advised(tree: &Tree) -> Vec<(String, usize)> {
    let sources = tree.rust_files().filter(|(path, _)| !is_test(path));
    sources
        .map(|(path, text)| (path.to_owned(), code_lines(text)))
        .filter(|(_, lines)| *lines > ADVISED_CODE_LINES)
        .collect()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
}

/// Lines of code before the unit tests.
fn code_lines(text: &str) -> usize {
    let text = RustText::new(text);
    let before_tests = text.lines().take_while(|(_, code, _)| code.trim() != "#[cfg(test)]");
    before_tests.filter(|(_, code, _)| !code.trim().is_empty()).count()
}

fn check_name(path: &str) -> Option<Problem> {
    let mut parts = path.rsplit('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    // A folder is a module too; the file in it is called mod.
    let bad = parts.find(|part| EMPTY_NAMES.contains(part))?;
    Some(Problem::new(path, 1, format!("`{bad}` names nothing; name the file for the one thing it holds")))
}

fn check_header(path: &str, text: &str) -> Option<Problem> {
    let first = text.lines().next().unwrap_or_default();
    let says_something = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
    (!says_something).then(|| Problem::new(path, 1, "begin with a header: `//! What this module is for.`"))
}

fn check_size(path: &str, text: &str) -> Option<Problem> {
    let lines = text.lines().count();
    (lines > MAX_LINES).then(|| {
        Problem::new(path, MAX_LINES + 1, format!("{lines} lines; split it, {MAX_LINES} is the limit"))
    })
}

/// `lib.rs` and `mod.rs` hold docs, attributes, `mod` and `use`.
fn check_lists_only(path: &str, text: &RustText) -> Option<Problem> {
    let code = text.code();
    let mut start = 0;
    while start < code.len() {
        let rest = &code[start..];
        let Some(offset) = rest.find(|c: char| !c.is_whitespace()) else { break };
        let item = &rest[offset..];
        let length = if item.starts_with('#') { attribute_length(item) } else { listed_length(item) };
        let Some(length) = length else {
            let line = code[..start + offset].matches('\n').count() + 1;
            return Some(Problem::new(
                path,
                line,
                "only docs, `mod` and `use` belong here; move the rest to a module",
            ));
        };
        start += offset + length;
    }
    None
}

/// The length of a leading `mod x;` or `use x;`, if there is one.
fn listed_length(item: &str) -> Option<usize> {
    let end = item.find(';')?;
    let mut words = &item[..end];
    if let Some(rest) = words.strip_prefix("pub") {
        words = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => rest,
        }
        .trim_start();
    }
    let is_list = words.starts_with("use ") || (words.starts_with("mod ") && !words.contains('{'));
    is_list.then_some(end + 1)
}

/// The length of a leading `#[...]` or `#![...]`.
fn attribute_length(item: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, c) in item.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return Some(index + 1),
            ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::problems_of;

    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(problems_of(super::check, &[(path, text)]), expected, "{text:?}");
    }

    #[test]
    fn a_module_begins_with_a_header() {
        check("a/src/x.rs", "//! What it is for.\nfn f() {}\n", &[]);
        let expected = &["a/src/x.rs:1: begin with a header: `//! What this module is for.`"];
        check("a/src/x.rs", "fn f() {}\n", expected);
        check("a/src/x.rs", "//!\nfn f() {}\n", expected);
        check("a/src/x.rs", "", expected);
        check("a/tests/it/x.rs", "fn f() {}\n", &[]);
    }

    #[test]
    fn a_list_of_modules_only_lists() {
        let good = "//! Docs.\n#![cfg_attr(docsrs, feature(doc_cfg))]\n\nmod a;\n#[cfg(test)]\nmod b;\n\
                    pub(crate) mod c;\npub use a::{\n    X,\n    Y,\n};\nuse b::Z as _;\n";
        check("a/src/lib.rs", good, &[]);
        let misplaced = "only docs, `mod` and `use` belong here; move the rest to a module";
        check("a/src/lib.rs", "//! Docs.\nmod a;\n\nfn f() {}\n", &[&format!("a/src/lib.rs:4: {misplaced}")]);
        check(
            "a/src/b/mod.rs",
            "//! Docs.\nmod a { use x; }\n",
            &[&format!("a/src/b/mod.rs:2: {misplaced}")],
        );
        check("a/src/lib.rs", "//! Docs.\nconst A: u8 = 1;\n", &[&format!("a/src/lib.rs:2: {misplaced}")]);
        check("a/src/main.rs", "//! Docs.\nfn main() {}\n", &[]);
    }

    #[test]
    fn long_files_are_split() {
        let long = format!("//! Docs.\n{}", "fn f() {}\n".repeat(MAX_LINES));
        check("a/src/x.rs", &long, &["a/src/x.rs:801: 801 lines; split it, 800 is the limit"]);
        check("a/tests/it/x.rs", &long, &[]);
        let advised = format!("//! Docs.\n{}", "fn f() {}\n".repeat(ADVISED_CODE_LINES + 1));
        let tree = Tree::of(&[("a/src/x.rs", &advised)]);
        assert_eq!(longer_than_advised(&tree), [("a/src/x.rs".to_owned(), ADVISED_CODE_LINES + 1)]);
        let tested = advised.replacen("fn f() {}", "#[cfg(test)]", 1);
        assert_eq!(longer_than_advised(&Tree::of(&[("a/src/x.rs", &tested)])), []);
    }

    #[test]
    fn names_say_something() {
        let message = "names nothing; name the file for the one thing it holds";
        check("a/src/utils.rs", "//! Docs.\n", &[&format!("a/src/utils.rs:1: `utils` {message}")]);
        check("a/src/common/mod.rs", "//! Docs.\n", &[&format!("a/src/common/mod.rs:1: `common` {message}")]);
        check("a/tests/it/helpers.rs", "", &[&format!("a/tests/it/helpers.rs:1: `helpers` {message}")]);
        check("a/src/commonality.rs", "//! Docs.\n", &[]);
    }
}
