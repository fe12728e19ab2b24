//! Lays out notes for a terminal.
//!
//! L1. No line exceeds the terminal's width, and only words longer than a line are cut. L2. Without a terminal, lines
//! are unchanged. Pure; nothing to cancel.

use super::words::width;

/// Blanks between a name and its text.
const GAP: usize = 2;
/// Minimum columns of a text beside its name; with fewer, it goes below.
const MIN_TEXT_COLUMNS: usize = 24;

/// Wraps a text; continuation lines are indented by `indent`.
pub fn wrapped(text: &str, columns: Option<usize>, indent: usize) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let lines = text.split('\n').map(|line| wrapped_line(line, columns, indent));
    lines.collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, columns: usize, indent: usize) -> String {
    // A line may have its own indentation.
    let own = line.len() - line.trim_start_matches(' ').len();
    let (mut text, mut taken) = (" ".repeat(own), own);
    let mut is_first = true;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let wide: usize = word.chars().map(width).sum();
        if is_first {
            is_first = false;
        } else if taken + 1 + wide > columns {
            text.push('\n');
            text.push_str(&" ".repeat(own + indent));
            taken = own + indent;
        } else {
            text.push(' ');
            taken += 1;
        }
        text.push_str(word);
        taken += wide;
    }
    text
}

/// Names and texts, in two columns if they fit.
pub(super) fn table(rows: &[(&str, String)], columns: Option<usize>) -> String {
    let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let indent = names + GAP;
    let lines = rows.iter().map(|(name, text)| match columns {
        Some(columns) if columns < indent + MIN_TEXT_COLUMNS => {
            format!("{name}\n{}", wrapped(&format!("{:GAP$}{text}", ""), Some(columns), 0))
        }
        Some(columns) => {
            let text = wrapped(text, Some(columns - indent), 0);
            format!("{name:<indent$}{}", text.replace('\n', &format!("\n{:indent$}", "")))
        }
        None => format!("{name:<indent$}{text}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn l1_lines_end_between_words() {
        let check = |text: &str, columns, expected: &str| assert_eq!(wrapped(text, columns, 2), expected);
        check("one two three", Some(8), "one two\n  three");
        check("one two three", Some(13), "one two three");
        check("  one two", Some(6), "  one\n    two");
        check("longer-than-it is", Some(6), "longer-than-it\n  is");
        check("a b\nc d", Some(2), "a\n  b\nc\n  d");
        check("one two three", None, "one two three");
    }

    #[test]
    fn a_table_has_two_columns_where_there_is_room() {
        let rows = [("/a", "one two three four five six".to_owned()), ("/long", "x".to_owned())];
        let check = |columns, expected: &str| assert_eq!(table(&rows, columns), expected);
        check(None, "/a     one two three four five six\n/long  x");
        check(Some(31), "/a     one two three four five\n       six\n/long  x");
        check(Some(20), "/a\n  one two three four\n  five six\n/long\n  x");
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a-c \n]{0,60}", columns in 4usize..40) {
            let wrapped = wrapped(&text, Some(columns), 2);
            let bare = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(bare(&wrapped), bare(&text));
        }
    }
}
