//! Aligned columns for terminals.

/// Rows under headings: columns to the left, but for those named, which go to the right; two spaces between. A last cell of
/// several lines stays in its column, so that no line of it can be taken for a row.
pub fn aligned<const N: usize>(headings: [&str; N], right: [bool; N], rows: &[[String; N]]) -> String {
    let headings = headings.map(str::to_owned);
    let all = || std::iter::once(&headings).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in all() {
        let cells: Vec<String> = (0..N)
            .map(|column| {
                let (cell, width) = (&row[column], widths[column]);
                if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            })
            .collect();
        let indent = format!("\n{}", " ".repeat(widths.iter().take(N - 1).map(|width| width + 2).sum()));
        text += &cells.join("  ").trim_end().replace('\n', &indent);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a".to_owned(), "10".to_owned()], ["long".to_owned(), "9".to_owned()]];
        assert_eq!(aligned(["x", "n"], [false, true], &rows), "x      n\na     10\nlong   9\n");
        let rows = [["a".to_owned(), "one\nb  two".to_owned()]];
        assert_eq!(aligned(["x", "y"], [false, false], &rows), "x  y\na  one\n   b  two\n");
    }
}
