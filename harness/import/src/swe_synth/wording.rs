//! The instruction of a task: reads like an issue by a person who saw the tests fail (Y4).

use super::candidate::Candidate;

/// Failing tests that an instruction names.
const MAX_NAMES: usize = 6;

/// Maximum characters and lines of a test's message.
const MAX_CHARACTERS: usize = 700;
const MAX_LINES: usize = 12;

/// Maximum characters of a docstring.
const MAX_DESCRIPTION: usize = 400;

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
    for test in failing.iter().take(MAX_NAMES) {
        text.push_str(&format!("- {test}\n"));
    }
    if failing.len() > MAX_NAMES {
        text.push_str(&format!("- and {} more\n", failing.len() - MAX_NAMES));
    }
    if let Some((test, error)) = failing.iter().find_map(|test| Some((test, message(log, test)?))) {
        text.push_str(&format!("\n{test} says:\n\n```\n{error}\n```\n"));
    }
    text.push_str(&format!(
        "\nFind the cause in the package and correct it there. The tests are right; leave them as they are. They are run by\n\n```\n{command}\n```\n"
    ));
    text
}

/// Module and function, in the form of an import.
fn qualified(fault: &Candidate) -> String {
    let path = fault.path.trim_end_matches(".py");
    let path = path.strip_prefix("src/").unwrap_or(path);
    let module = path.strip_suffix("/__init__").unwrap_or(path).replace('/', ".");
    format!("{module}.{}", fault.name)
}

/// The first paragraph of a docstring, on one line.
fn description(doc: &str) -> String {
    let first = doc.trim().split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, MAX_DESCRIPTION)
}

/// The exception of a failed unittest test, without its traceback.
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
    let error = &way[way.iter().position(|line| !line.is_empty() && !line.starts_with(' '))?..];
    let error = error.join("\n");
    let error = error.trim();
    let lines: Vec<&str> = error.lines().take(MAX_LINES).collect();
    Some(cut(&lines.join("\n"), MAX_CHARACTERS)).filter(|error| !error.is_empty())
}

/// Whether a failing test raised a type error, which shows at once where to look.
pub(super) fn is_crash(failing: &[String], log: &str) -> bool {
    let kinds = ["TypeError", "AttributeError", "NameError", "UnboundLocalError"];
    let error = failing.iter().find_map(|test| message(log, test));
    error.is_some_and(|error| kinds.iter().any(|kind| error.starts_with(kind)))
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
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
    fn test_messages_are_extracted() {
        check(LOG, "test_a (tests.t.T)", Some("AssertionError: 1 != 2"));
        check(LOG, "test_b (tests.t.T)", None);
        check("", "test_a (tests.t.T)", None);
    }

    #[test]
    fn crashes_are_recognised() {
        let failing = ["test_a (tests.t.T)".to_owned()];
        assert!(!is_crash(&failing, LOG));
        assert!(is_crash(&failing, &LOG.replace("AssertionError: 1 != 2", "TypeError: 1")));
        assert!(!is_crash(&failing, ""));
    }

    #[test]
    fn y4_instruction_reads_like_an_issue() {
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
