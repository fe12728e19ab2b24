//! Charts as SVG without scripts.
//!
//! C1. All coordinates are finite for all numbers: a missing bound extends to the edge, with an arrow. C2. All information of a
//! chart is also in the text beside it.

use std::fmt::Write;

use super::frame::text;

/// Width of a plot, in its own units, which are about pixels.
const WIDTH: f64 = 380.0;
/// Margin left and right, for halves of labels.
const MARGIN: f64 = 34.0;
const HEIGHT: f64 = 82.0;
/// Vertical position of the axis.
const MIDDLE: f64 = 43.0;
/// Letters of a label that fit a plot of this width are about so wide.
const LETTER: f64 = 6.7;

/// A threshold across a plot: the tolerance or `min_effect`.
pub(crate) struct Bound {
    /// Position on the axis.
    pub(crate) value: f64,
    /// Class of the style sheet.
    pub(crate) class: &'static str,
    /// Label of the threshold.
    pub(crate) label: String,
}

/// One number with its interval, on an axis.
pub(crate) struct Scale<'a> {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) bounds: Vec<Bound>,
    /// Accessible name of the chart.
    pub(crate) name: &'a str,
    /// Labels of both ends of the axis.
    pub(crate) ends: [&'a str; 2],
    /// Formats a value.
    pub(crate) label: &'a dyn Fn(f64) -> String,
}

impl Scale<'_> {
    /// The drawing.
    pub(crate) fn draw(&self) -> String {
        let marks = [self.value, self.low, self.high, 0.0];
        let all = marks.iter().copied().chain(self.bounds.iter().map(|bound| bound.value));
        let finite: Vec<f64> = all.filter(|value| value.is_finite()).collect();
        let least = finite.iter().copied().fold(0.0, f64::min);
        let most = finite.iter().copied().fold(0.0, f64::max);
        let span = if most - least > 0.0 { most - least } else { 1.0 };
        let inner = WIDTH - 2.0 * MARGIN;
        let x = |value: f64| MARGIN + inner * ((value - least) / span).clamp(0.0, 1.0);
        // Without labels of bounds the space above the axis is empty.
        let top = if self.bounds.is_empty() { 28.0 } else { 0.0 };
        let mut svg = format!(
            "<svg class=\"plot\" viewBox=\"0 {top} {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\
             <line class=\"axis\" x1=\"4\" x2=\"{:.1}\" y1=\"{MIDDLE}\" y2=\"{MIDDLE}\"/>\
             <line class=\"zero\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"32\" y2=\"54\"/>",
            HEIGHT - top,
            text(self.name),
            WIDTH - 4.0,
            zero = x(0.0),
        );
        // Above every line, which they hide where they meet.
        let mut labels = String::new();
        // Each label has its own row, so that labels never overlap.
        let rows = [11.0, 25.0];
        let bounds = self.bounds.iter().filter(|bound| bound.value.is_finite());
        for (Bound { value, class, label }, row) in bounds.zip(rows) {
            let at = x(*value);
            // Writing to a string does not fail, here and below.
            let _ = write!(
                svg,
                "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"54\"/>",
                row + 3.0,
            );
            labels += &placed(at, row, label, class);
        }
        if self.value.is_finite() {
            self.reach(&mut svg, &x);
            let at = x(self.value);
            let _ = write!(svg, "<circle cx=\"{at:.1}\" cy=\"{MIDDLE}\" r=\"4.5\"/>");
            labels += &placed(at, 64.0, &(self.label)(self.value), "");
        }
        let [left, right] = self.ends.map(text);
        let _ = write!(
            svg,
            "{labels}<text x=\"4\" y=\"78\" opacity=\".7\">{left}</text>\
             <text x=\"{:.1}\" y=\"78\" text-anchor=\"end\" opacity=\".7\">{right}</text></svg>",
            WIDTH - 4.0
        );
        svg
    }

    /// The interval; an arrow at the edge if it has no end.
    fn reach(&self, svg: &mut String, x: &dyn Fn(f64) -> f64) {
        let end = |bound: f64, edge: f64| if bound.is_finite() { x(bound) } else { edge };
        let (from, to) = (end(self.low, 12.0), end(self.high, WIDTH - 12.0));
        let _ = write!(
            svg,
            "<line class=\"reach\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{MIDDLE}\" y2=\"{MIDDLE}\"/>"
        );
        if !self.low.is_finite() {
            svg.push_str("<path class=\"open\" d=\"M4 43l10-6v12z\"/>");
        }
        if !self.high.is_finite() {
            let _ = write!(svg, "<path class=\"open\" d=\"M{:.1} 43l-10-6v12z\"/>", WIDTH - 4.0);
        }
    }
}

/// Text around a place, as far in as it has to be.
fn placed(at: f64, y: f64, label: &str, class: &str) -> String {
    let half = (LETTER * label.chars().count() as f64 / 2.0).min(WIDTH / 2.0);
    format!(
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
        at.clamp(half, WIDTH - half),
        text(label)
    )
}

const CHANGE_WIDTH: f64 = 110.0;

/// Shares of passes before and after, between none and all.
pub(crate) fn change(before: Option<f64>, after: Option<f64>) -> String {
    let x = |share: f64| 6.0 + (CHANGE_WIDTH - 12.0) * share.clamp(0.0, 1.0);
    let mut svg = format!(
        "<svg class=\"change\" viewBox=\"0 0 {CHANGE_WIDTH} 14\" aria-hidden=\"true\">\
         <line class=\"axis\" x1=\"6\" x2=\"{:.1}\" y1=\"7\" y2=\"7\"/>",
        CHANGE_WIDTH - 6.0
    );
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        let class = if after < before { "fell" } else { "rose" };
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"7\" y2=\"7\"/>",
            x(before),
            x(after)
        );
    }
    for (share, class, radius) in [(before, "before", 4.5), (after, "after", 3.0)] {
        if let Some(share) = share {
            let _ = write!(svg, "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"7\" r=\"{radius}\"/>", x(share));
        }
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(value: f64, low: f64, high: f64, bound: f64) -> String {
        let bounds = vec![Bound { value: bound, class: "matters", label: "5 would matter".to_owned() }];
        let label = |value: f64| format!("{value:.1}");
        Scale { value, low, high, bounds, name: "a<b", ends: ["better", "worse"], label: &label }.draw()
    }

    #[test]
    fn bounds_that_there_are_none_of_are_arrows() {
        let check = |low: f64, high: f64, arrows: usize| {
            assert_eq!(drawn(0.1, low, high, 0.2).matches("<path").count(), arrows);
        };
        check(0.0, 0.2, 0);
        check(f64::NEG_INFINITY, 0.2, 1);
        check(f64::NEG_INFINITY, f64::INFINITY, 2);
        assert!(drawn(0.1, 0.0, 0.2, 0.2).contains("aria-label=\"a&lt;b\""));
        assert!(!drawn(f64::NAN, 0.0, 0.2, 0.2).contains("<circle"));
    }

    proptest! {
        #[test]
        fn c1_coordinates_are_finite(value: f64, low: f64, high: f64, bound: f64) {
            let svg = drawn(value, low, high, bound);
            let numbers = svg.split(['"', ' ']).filter(|part| part.contains("NaN") || part.contains("inf"));
            let label = format!("{value:.1}");
            prop_assert_eq!(numbers.filter(|part| !part.contains(&label)).count(), 0, "{}", svg);
        }
    }
}
