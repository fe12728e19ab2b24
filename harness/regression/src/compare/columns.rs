//! Prints two texts side by side in a terminal.
//!
//! C1. No line is wider than both columns and the separator. C2. Long lines are cut with a mark, never wrapped into the other
//! column.
//!
//! Pure; nothing to cancel.

use clawrl_core::printable_line;

/// Characters of a column.
const WIDTH: usize = 47;
/// Lines of one text.
const MAX_LINES: usize = 6;

/// Both, line by line; each line ends.
pub(super) fn beside(left: &str, right: &str) -> String {
    let (left, right) = (lines(left), lines(right));
    let mut text = String::new();
    for at in 0..left.len().max(right.len()) {
        let of = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        text += format!("  {:<WIDTH$} | {}", of(&left), of(&right)).trim_end();
        text.push('\n');
    }
    text
}

fn lines(text: &str) -> Vec<String> {
    let all: Vec<&str> = text.lines().collect();
    let shown = if all.len() > MAX_LINES { MAX_LINES - 1 } else { all.len() };
    let mut lines: Vec<String> = all.iter().take(shown).map(|line| printable_line(line, WIDTH)).collect();
    if shown < all.len() {
        lines.push(format!("… {} more lines", all.len() - shown));
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_stand_beside_each_other() {
        let check = |left: &str, right: &str, expected: [&str; 2]| {
            let found = beside(left, right);
            let cells: Vec<[&str; 2]> = found
                .lines()
                .map(|line| {
                    line.split_once('|').map_or([line, ""], |(left, right)| [left, right]).map(str::trim)
                })
                .collect();
            let columns: Vec<String> =
                (0..2).map(|side| cells.iter().map(|row| row[side]).collect::<Vec<_>>().join("/")).collect();
            assert_eq!(columns, expected, "{found}");
        };
        check("a", "b\nc", ["a/", "b/c"]);
        check("a\nb", "", ["a/b", "/"]);
        check("", "", ["", ""]);
        check("a\u{1b}[m\tb", &"x".repeat(99), [r"a\u{1b}[m\tb", &format!("{}…", "x".repeat(WIDTH - 1))]);
        let long: String = (0..9).map(|line| format!("{line}\n")).collect();
        assert_eq!(beside(&long, "").lines().count(), MAX_LINES);
        assert!(beside(&long, "").contains("… 4 more lines"));
    }

    proptest! {
        #[test]
        fn c1_no_line_is_wider(left: String, right: String) {
            for line in beside(&left, &right).lines() {
                prop_assert!(line.chars().count() <= 2 * WIDTH + 5, "{line}");
            }
        }
    }
}
