//! Aligned columns for terminals.
//!
//! I1. On a terminal, a table is at most as wide as the terminal if each column still fits a word. Elsewhere a row is
//! one line, for programs.

use crate::output;

/// Minimum width to which a column of text is narrowed, so that names and words stay whole.
const NARROWEST: usize = 12;

/// Blanks between columns.
const GAP: usize = 2;

/// Rows under headings. Columns are left-aligned unless `right`. A cell of several lines stays in its column, so that
/// none of its lines looks like a row.
pub(crate) fn aligned<const N: usize>(headings: [&str; N], right: [bool; N], rows: &[[String; N]]) -> String {
    fitted(headings, right, rows, output::columns())
}

/// Like [`aligned`], for a terminal of `columns` (I1).
pub(crate) fn fitted<const N: usize>(
    headings: [&str; N],
    right: [bool; N],
    rows: &[[String; N]],
    columns: Option<usize>,
) -> String {
    let headings = headings.map(str::to_owned);
    let all = || std::iter::once(&headings).chain(rows);
    let longest = |column: usize| all().flat_map(|row| row[column].lines()).map(length).max().unwrap_or(0);
    let mut widths: [usize; N] = std::array::from_fn(longest);
    if let Some(columns) = columns {
        narrow(&mut widths, right, columns);
    }
    let mut text = String::new();
    for row in all() {
        let cells: [Vec<String>; N] = std::array::from_fn(|column| wrapped(&row[column], widths[column]));
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0).max(1) {
            let cell = |column: usize| {
                let (cell, width) = (cells[column].get(line).map_or("", String::as_str), widths[column]);
                if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            };
            text += (0..N).map(cell).collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end();
            text.push('\n');
        }
    }
    text
}

/// Narrows the widest text columns by the excess width.
fn narrow<const N: usize>(widths: &mut [usize; N], right: [bool; N], columns: usize) {
    loop {
        let whole = widths.iter().sum::<usize>() + GAP * N.saturating_sub(1);
        let widest = (0..N).filter(|&column| !right[column]).max_by_key(|&column| widths[column]);
        let Some(widest) = widest.filter(|&column| widths[column] > NARROWEST && whole > columns) else {
            return;
        };
        // Narrow to the next widest, so that the excess is shared.
        let next = (0..N).filter(|&column| !right[column] && widths[column] < widths[widest]);
        let next = next.map(|column| widths[column]).max().unwrap_or(0).max(NARROWEST);
        widths[widest] = next.max(widths[widest].saturating_sub(whole - columns));
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Wraps a cell to a width. Lines break between words, after punctuation in paths and names, and within a word only if
/// it is longer than the column.
pub(crate) fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for whole in cell.lines() {
        let mut rest = whole;
        while length(rest) > width.max(1) {
            let most = rest.char_indices().nth(width.max(1)).map_or(rest.len(), |(at, _)| at);
            let space = if rest[most..].starts_with(' ') { Some(most) } else { rest[..most].rfind(' ') };
            let end = match space.filter(|at| !rest[..*at].trim().is_empty()) {
                Some(space) => space,
                None => match rest[..most].rfind(['/', '-', '_', ',', ':', '.']) {
                    Some(sign) => sign + 1,
                    None => most,
                },
            };
            lines.push(rest[..end].trim_end().to_owned());
            rest = rest[end..].trim_start();
        }
        lines.push(rest.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headings: [&str; 2], right: [bool; 2], row: [&str; 2], columns: Option<usize>, expected: &str) {
        assert_eq!(fitted(headings, right, &[row.map(str::to_owned)], columns), expected);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a".to_owned(), "10".to_owned()], ["long".to_owned(), "9".to_owned()]];
        assert_eq!(fitted(["x", "n"], [false, true], &rows, None), "x      n\na     10\nlong   9\n");
        check(["x", "y"], [false; 2], ["a", "one\nb  two"], None, "x  y\na  one\n   b  two\n");
        check(["x", "y"], [false; 2], ["", ""], None, "x  y\n\n");
    }

    #[test]
    fn i1_a_table_is_no_wider_than_its_terminal() {
        let text = "no libtorch_cpu.so in /srv1/.cache/clawrl/libtorch/lib, so there is no training";
        let expected = "x         y\nlibtorch  no libtorch_cpu.so in\n          /srv1/.cache/clawrl/libtorch/\n          lib, so there is no training\n";
        check(["x", "y"], [false; 2], ["libtorch", text], Some(40), expected);
        let long = "20251128-041800-terminal-basics";
        let expected = format!("x{:15}n\n20251128-{:5}100\n041800-\nterminal-\nbasics\n", "", "");
        check(["x", "n"], [false, true], [long, "100"], Some(16), &expected);
        // Numbers stay whole at any width.
        let expected = format!("x{:12}n\nab  1234567890\n", "");
        check(["x", "n"], [false, true], ["ab", "1234567890"], Some(4), &expected);
    }

    #[test]
    fn words_are_cut_only_where_they_are_longer_than_a_line() {
        let check = |text: &str, width: usize, expected: &[&str]| {
            assert_eq!(wrapped(text, width), expected, "{text}")
        };
        check("one two three", 7, &["one two", "three"]);
        check("one two three", 8, &["one two", "three"]);
        check("éééééé x", 3, &["ééé", "ééé", "x"]);
        check("a/bc/def", 4, &["a/", "bc/", "def"]);
        check("  indented text", 10, &["  indented", "text"]);
        check("x", 0, &["x"]);
        check("", 5, &[]);
    }
}
