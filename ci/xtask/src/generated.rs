//! Files, and parts of files, that are written by `cargo xtask generate` and never by hand.

use crate::edges;
use crate::problem::Problem;
use crate::tree::Tree;

/// A generated file with its expected content.
pub(crate) struct Generated {
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

/// The file that this program generates, up to date. The published schemas are `clawrl-config`'s, whose tests check them:
/// this program must build in seconds.
pub(crate) fn page(tree: &Tree) -> Option<Generated> {
    let text = tree.text(edges::PAGE).and_then(edges::updated)?;
    Some(Generated { path: edges::PAGE, text })
}

/// Checks that the file in the repository has this content.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    page(tree).and_then(|file| stale(&file, tree.text(file.path))).into_iter().collect()
}

fn stale(file: &Generated, found: Option<&str>) -> Option<Problem> {
    let advice = "run `cargo xtask generate`";
    let Some(found) = found else {
        return Some(Problem::new(file.path, 1, format!("is missing; {advice}")));
    };
    let same = found.lines().zip(file.text.lines()).take_while(|(found, wanted)| found == wanted).count();
    (found != file.text).then(|| Problem::new(file.path, same + 1, format!("is not current; {advice}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: Option<&str>, expected: Option<&str>) {
        let file = Generated { path: "a.json", text: "1\n2\n".to_owned() };
        assert_eq!(stale(&file, found).map(|problem| problem.to_string()).as_deref(), expected, "{found:?}");
    }

    #[test]
    fn a_file_is_current_to_the_last_byte() {
        check(Some("1\n2\n"), None);
        check(Some("1\n3\n"), Some("a.json:2: is not current; run `cargo xtask generate`"));
        check(Some("1\n2"), Some("a.json:3: is not current; run `cargo xtask generate`"));
        check(Some("1\n2\n3\n"), Some("a.json:3: is not current; run `cargo xtask generate`"));
        check(None, Some("a.json:1: is missing; run `cargo xtask generate`"));
    }
}
