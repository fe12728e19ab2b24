//! The instruction of a task: like an issue that somebody wrote who saw the tests fail (Y4).

use super::candidate::Candidate;

/// Names of failing tests that are told.
const MOST_NAMES: usize = 6;

/// Characters and lines of what a test says.
const MOST_CHARACTERS: usize = 700;
const MOST_LINES: usize = 12;

/// Characters of a description.
const MOST_DESCRIPTION: usize = 400;

/// The text.
pub(super) fn instruction(
    package: &str,
    fault: &Candidate,
    failing: &[String],
    log: &str,
    command: &str,
) -> String {
    let name = qualified(fault);
    let mut text = format!("`{name}` of the package {package} does not do what it should.\n");
    let described = description(&fault.doc);
    if !described.is_empty() {
        text.push_str(&format!("\nIts description begins: {described}\n"));
    }
    match failing.len() {
        1 => text.push_str("\nOne test that passed before fails now:\n\n"),
        count => text.push_str(&format!("\n{count} tests that passed before fail now:\n\n")),
    }
    for test in failing.iter().take(MOST_NAMES) {
        text.push_str(&format!("- {test}\n"));
    }
    if failing.len() > MOST_NAMES {
        text.push_str(&format!("- and {} more\n", failing.len() - MOST_NAMES));
    }
    if let Some((test, said)) = failing.iter().find_map(|test| Some((test, message(log, test)?))) {
        text.push_str(&format!("\n{test} says:\n\n```\n{said}\n```\n"));
    }
    text.push_str(&format!(
        "\nFind the cause in the package and correct it there. The tests are right; leave them as they are. They are run by\n\n```\n{command}\n```\n"
    ));
    text
}

/// Module and function, as one would import them.
fn qualified(fault: &Candidate) -> String {
    let path = fault.path.trim_end_matches(".py");
    let path = path.strip_prefix("src/").unwrap_or(path);
    let module = path.strip_suffix("/__init__").unwrap_or(path).replace('/', ".");
    format!("{module}.{}", fault.name)
}

/// The first paragraph of a description, on one line.
fn description(doc: &str) -> String {
    let first = doc.trim().split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, MOST_DESCRIPTION)
}

/// What a test of unittest said when it failed: the exception, without the lines of code on its way.
fn message(log: &str, test: &str) -> Option<String> {
    let heads = [format!("FAIL: {test}"), format!("ERROR: {test}")];
    let lines: Vec<&str> = log.lines().collect();
    let head = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head.as_str())))?;
    let is_rule =
        |line: &&str| line.len() >= 70 && (line.chars().all(|c| c == '=') || line.chars().all(|c| c == '-'));
    let begin = head + 1 + lines[head + 1..].iter().position(&is_rule)? + 1;
    let block = &lines[begin..];
    let block = &block[..block.iter().position(is_rule).unwrap_or(block.len())];
    let last = block.iter().rposition(|line| line.starts_with("Traceback "))?;
    let way = &block[last + 1..];
    let said = &way[way.iter().position(|line| !line.is_empty() && !line.starts_with(' '))?..];
    let said = said.join("\n");
    let said = said.trim();
    let lines: Vec<&str> = said.lines().take(MOST_LINES).collect();
    Some(cut(&lines.join("\n"), MOST_CHARACTERS)).filter(|said| !said.is_empty())
}

/// Whether a failing test broke on an object of a wrong kind, which tells at once where to look.
pub(super) fn is_crash(failing: &[String], log: &str) -> bool {
    let kinds = ["TypeError", "AttributeError", "NameError", "UnboundLocalError"];
    let said = failing.iter().find_map(|test| message(log, test));
    said.is_some_and(|said| kinds.iter().any(|kind| said.starts_with(kind)))
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{} ...", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::tests::fault;
    use super::*;

    const LOG: &str = "test_a (tests.t.T) ... FAIL\n\n======================================================================\nFAIL: test_a (tests.t.T)\nSays what it is.\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/tests/t.py\", line 3, in test_a\n    self.assertEqual(width(), 2)\nAssertionError: 1 != 2\n\n----------------------------------------------------------------------\nRan 1 test in 0.001s\n";

    fn check(log: &str, test: &str, expected: Option<&str>) {
        assert_eq!(message(log, test).as_deref(), expected);
    }

    #[test]
    fn tests_say_what_is_wrong() {
        check(LOG, "test_a (tests.t.T)", Some("AssertionError: 1 != 2"));
        check(LOG, "test_b (tests.t.T)", None);
        check("", "test_a (tests.t.T)", None);
    }

    #[test]
    fn crashes_are_told_apart() {
        let failing = ["test_a (tests.t.T)".to_owned()];
        assert!(!is_crash(&failing, LOG));
        assert!(is_crash(&failing, &LOG.replace("AssertionError: 1 != 2", "TypeError: 1")));
        assert!(!is_crash(&failing, ""));
    }

    #[test]
    fn y4_an_instruction_reads_like_an_issue() {
        let failing: Vec<String> =
            (0..8).map(|n| format!("test_{} (tests.t.T)", ["a", "b"][n % 2])).collect();
        let text = instruction("pen", &fault("comparison", 0.0), &failing, LOG, "python3 -m unittest");
        insta::assert_snapshot!(text, @r"
        `pen.nib.Nib.width` of the package pen does not do what it should.

        Its description begins: Width of the nib.

        8 tests that passed before fail now:

        - test_a (tests.t.T)
        - test_b (tests.t.T)
        - test_a (tests.t.T)
        - test_b (tests.t.T)
        - test_a (tests.t.T)
        - test_b (tests.t.T)
        - and 2 more

        test_a (tests.t.T) says:

        ```
        AssertionError: 1 != 2
        ```

        Find the cause in the package and correct it there. The tests are right; leave them as they are. They are run by

        ```
        python3 -m unittest
        ```
        ");
    }
}
