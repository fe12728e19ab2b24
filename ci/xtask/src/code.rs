//! Rules of code that clippy lacks: no ignored tests, no unexplained sleeping.
//!
//! A sleep that implements a timer needs a comment `// timer: why` on its line or the line above. Tests with tokio's paused
//! clock may sleep, because that takes no time.

use crate::problem::Problem;
use crate::rust_text::RustText;
use crate::tree::Tree;

/// Checks every Rust file, tests included.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, source) in tree.rust_files() {
        let text = RustText::new(source);
        let owns_time = text.code().contains("start_paused") || text.code().contains("time::pause(");
        let mut in_tests = path.contains("/tests/");
        let lines: Vec<(usize, &str, &str)> = text.lines().collect();
        for (index, &(number, code, comment)) in lines.iter().enumerate() {
            in_tests |= code.trim() == "#[cfg(test)]";
            let above = &lines[..index];
            let messages = [
                ignored_test(code),
                unexplained_sleep(code, comment, above).filter(|_| blocks(code) || !(owns_time && in_tests)),
            ];
            problems
                .extend(messages.into_iter().flatten().map(|message| Problem::new(path, number, message)));
        }
    }
    problems
}

fn ignored_test(code: &str) -> Option<&'static str> {
    let code: String = code.split_whitespace().collect();
    (code.starts_with("#[ignore"))
        .then_some("no ignored tests; a slow one goes to a module `heavy`, see .config/nextest.toml")
}

fn unexplained_sleep(code: &str, comment: &str, above: &[(usize, &str, &str)]) -> Option<&'static str> {
    let comment_above = above.last().map_or("", |(_, _, comment)| comment);
    let explained = [comment, comment_above]
        .iter()
        .any(|comment| comment.split_once("timer:").is_some_and(|(_, why)| !why.trim().is_empty()));
    (calls(code, "sleep", "(") && !explained).then_some(
        "a sleep does not synchronise; wait for the event, or explain it on this line: `// timer: why`",
    )
}

/// Sleeps of a thread, which a paused clock does not shorten.
fn blocks(code: &str) -> bool {
    code.contains("thread::")
}

/// Does `code` hold the word `name`, followed by `next`?
fn calls(code: &str, name: &str, next: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let is_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        is_word && code[at + name.len()..].trim_start().starts_with(next)
    })
}

#[cfg(test)]
mod tests {
    use crate::tree::problems_of;

    /// The lines of `text` that are refused.
    fn check(text: &str, expected: &[usize]) {
        let found = problems_of(super::check, &[("a/src/x.rs", text)]);
        let lines: Vec<usize> = found.iter().filter_map(|p| p.split(':').nth(1)?.parse().ok()).collect();
        assert_eq!(lines, expected, "{text:?} gives {found:?}");
    }

    #[test]
    fn tests_are_not_ignored() {
        check("#[test]\n#[ignore]\nfn f() {}", &[2]);
        check("#[ignore = \"slow\"]\nfn f() {}", &[1]);
        check("// #[ignore]\nfn ignore() {}", &[]);
    }

    #[test]
    fn sleeps_are_explained() {
        check("thread::sleep(x);\ntokio::time::sleep(x).await;", &[1, 2]);
        check("sleep(x); // timer: the keep-alive itself", &[]);
        check("// timer: the keep-alive itself\nsleep(x);", &[]);
        check("sleep(x); // timer:", &[1]);
        check("sleep_until(x); g(\"sleep(1)\"); oversleep(y);", &[]);
    }

    #[test]
    fn tests_that_own_time_may_sleep() {
        let test = "#[cfg(test)]\n#[tokio::test(start_paused = true)]\nasync fn f() {";
        check(&format!("{test}\ntokio::time::sleep(x).await; }}"), &[]);
        check(&format!("{test}\nstd::thread::sleep(x); }}"), &[4]);
        check(&format!("fn g() {{ sleep(x) }}\n{test} }}"), &[1]);
    }
}
