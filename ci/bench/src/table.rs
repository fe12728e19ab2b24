//! Medians, spreads and tables.

use std::fmt::Write;

/// Repeated measurements of one quantity.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// NaN if empty; the mean of the middle two for an even number.
    pub(crate) fn median(&self) -> f64 {
        let half = self.sorted.len() / 2;
        match self.sorted.len() {
            0 => f64::NAN,
            even if even.is_multiple_of(2) => f64::midpoint(self.sorted[half - 1], self.sorted[half]),
            _ => self.sorted[half],
        }
    }

    /// Quantile by nearest rank; NaN if empty.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// Median, minimum and maximum: `3.1 (3.0-3.4)`.
    pub(crate) fn summary(&self) -> String {
        let ends = self.sorted.first().zip(self.sorted.last());
        ends.map_or_else(|| "-".to_owned(), |(min, max)| format!("{:.2} ({min:.2}-{max:.2})", self.median()))
    }
}

/// Pads columns to their widest cell; the first is left-aligned, the others right-aligned.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let padded = if column == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
            // Writing to a string cannot fail.
            let _ = write!(text, "{gap}{padded}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], median: f64, summary: &str) {
        let sample = Sample::new(values.to_vec());
        assert_eq!(sample.median(), median, "{values:?}");
        assert_eq!(sample.summary(), summary, "{values:?}");
    }

    #[test]
    fn median_and_summary() {
        check(&[3.0, 1.0, 2.0], 2.0, "2.00 (1.00-3.00)");
        check(&[4.0, 1.0], 2.5, "2.50 (1.00-4.00)");
        assert!(Sample::new(Vec::new()).median().is_nan());
    }

    #[test]
    fn quantile_is_a_sample_value() {
        let check = |values: &[f64], share: f64, expected: f64| {
            assert_eq!(Sample::new(values.to_vec()).quantile(share), expected, "{share} of {values:?}");
        };
        check(&[4.0, 1.0, 3.0, 2.0], 0.5, 2.0);
        check(&[4.0, 1.0, 3.0, 2.0], 0.95, 4.0);
        check(&[1.0], 0.0, 1.0);
        assert!(Sample::new(Vec::new()).quantile(0.5).is_nan());
    }

    #[test]
    fn render_aligns_columns() {
        let rows =
            [vec!["a", "b"], vec!["long", "12"]].map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(render(&rows), "a      b\nlong  12\n");
    }
}
