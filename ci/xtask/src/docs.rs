//! The documents: the expected ones exist, every environment has its page, the table of contents is complete, and every link has a
//! target.

use crate::problem::Problem;
use crate::tree::Tree;

const EXPECTED: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"];
/// The table of contents of the book that `mdbook build harness/docs` makes.
const CONTENTS: &str = "harness/docs/SUMMARY.md";
const PAGES: &str = "harness/docs/";
const ENVIRONMENT_PAGES: &str = "harness/docs/environments";

/// Checks all rules on documents.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> = EXPECTED
        .iter()
        .filter(|path| !tree.has(path))
        .map(|path| Problem::new(*path, 1, "is missing"))
        .collect();
    for manifest in tree.paths() {
        let environment = manifest.strip_prefix("envs/").and_then(|path| path.strip_suffix("/Cargo.toml"));
        let page = environment.map(|name| format!("{ENVIRONMENT_PAGES}/{name}.md"));
        problems.extend(
            page.filter(|page| !tree.has(page))
                .map(|page| Problem::new(manifest, 1, format!("the crate has no page; write {page}"))),
        );
    }
    problems.extend(unlisted(tree));
    for (path, text) in tree.text_files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links(text) {
            problems.extend(dead(tree, path, text, &target).map(|why| Problem::new(path, line, why)));
        }
    }
    problems
}

/// The pages that the table of contents lacks: mdBook would leave them out.
fn unlisted(tree: &Tree) -> Vec<Problem> {
    let contents = tree.text(CONTENTS).unwrap_or_default();
    let listed: Vec<String> =
        links(contents).into_iter().filter_map(|(_, target)| resolve(CONTENTS, &target)).collect();
    let pages =
        tree.paths().filter(|path| path.starts_with(PAGES) && path.ends_with(".md") && *path != CONTENTS);
    pages
        .filter(|page| !listed.iter().any(|listed| listed == page))
        .map(|page| Problem::new(page, 1, format!("add the page to {CONTENTS}")))
        .collect()
}

/// The lines of a Markdown text that are not in a fenced block, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// `line` without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// (line, target) of each link: `[text](target)`, images, and `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target.to_owned()));
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            found.push((number, target.trim().to_owned()));
        }
    }
    found
}

/// The reason why the link `target` in the file `path` is broken, if it is. Links to other sites are not followed.
fn dead(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(file) = resolve(path, file) else {
        return Some(format!("the link {target} leaves the repository"));
    };
    if !tree.has(&file) {
        return Some(format!("the link {target} leads nowhere: there is no {file}"));
    }
    let text = if file == path { text } else { tree.text(&file).unwrap_or_default() };
    let has_heading =
        heading.is_empty() || !file.ends_with(".md") || headings(text).any(|known| known == heading);
    (!has_heading).then(|| format!("the link {target} leads nowhere: {file} has no such heading"))
}

/// The path of `target` relative to the file `from`; `None` if it is outside of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of the headings: lower case, words joined by `-`, other punctuation dropped.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::problems_of;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let mut all: Vec<(&str, &str)> = EXPECTED.iter().map(|path| (*path, "")).collect();
        all.retain(|(path, _)| !files.iter().any(|(given, _)| given == path));
        all.extend_from_slice(files);
        assert_eq!(problems_of(super::check, &all), expected, "{files:?}");
    }

    #[test]
    fn the_expected_documents_are_there() {
        check(&[], &[]);
        let missing = problems_of(super::check, &[("README.md", "")]);
        assert_eq!(missing.len(), EXPECTED.len() - 1);
        assert_eq!(missing[0], "ARCHITECTURE.md:1: is missing");
    }

    #[test]
    fn every_environment_has_its_page() {
        let page = ("harness/docs/environments/moon.md", "");
        let contents = ("harness/docs/SUMMARY.md", "- [Moon](environments/moon.md)\n");
        check(&[("envs/moon/Cargo.toml", ""), page, contents], &[]);
        check(&[page], &["harness/docs/environments/moon.md:1: add the page to harness/docs/SUMMARY.md"]);
        check(
            &[("envs/moon/Cargo.toml", "")],
            &["envs/moon/Cargo.toml:1: the crate has no page; write harness/docs/environments/moon.md"],
        );
    }

    #[test]
    fn links_lead_somewhere() {
        let pages = [("docs/a.md", "# The first\n"), ("docs/b/c.md", "")];
        let with = |text: &'static str| [pages[0], pages[1], ("README.md", text)];
        check(&with("[a](docs/a.md) ![b](./docs/b/) [c](#d)\n# D\n"), &[]);
        check(&with("[a](docs/a.md#the-first) [e](https://example.org/x)\n[a]: docs/a.md\n"), &[]);
        check(&with("`[a](x.md)`\n```\n[a](x.md)\n```\n"), &[]);
        check(&with("\n[a](x.md)\n"), &["README.md:2: the link x.md leads nowhere: there is no x.md"]);
        check(&with("[a]: x.md\n"), &["README.md:1: the link x.md leads nowhere: there is no x.md"]);
        check(&with("[a](../x.md)\n"), &["README.md:1: the link ../x.md leaves the repository"]);
        check(
            &with("[a](docs/a.md#second)\n"),
            &["README.md:1: the link docs/a.md#second leads nowhere: docs/a.md has no such heading"],
        );
        check(&[pages[0], ("docs/b/c.md", "[a](../a.md) [r](/README.md)\n")], &[]);
    }
}
