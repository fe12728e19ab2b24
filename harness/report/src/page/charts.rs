//! Drawings of the page, as SVG without script.

use std::fmt::Write;

use clawrl_record::{Rate, duration};

use crate::histogram::{BUCKETS, PER_DECADE};
use crate::stats::{Per, PhaseStats};

/// A rate and its interval on an axis with ticks at 0, a half and 1.
pub(super) fn interval(rate: &Rate) -> String {
    let x = |share: f64| 5.0 + 120.0 * share;
    format!(
        "<svg class=\"interval\" viewBox=\"0 0 130 14\" aria-hidden=\"true\">\
         <path class=\"axis\" d=\"M5 7H125M5 4V10M65 4V10M125 4V10\"/>\
         <line class=\"reach\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"7\" y2=\"7\"/>\
         <circle cx=\"{:.1}\" cy=\"7\" r=\"3.5\"/></svg>",
        x(rate.low),
        x(rate.high),
        x(rate.value)
    )
}

const WIDTH: f64 = 280.0;
const HEIGHT: f64 = 70.0;
/// Room for the axis below the bars.
const AXIS: f64 = 18.0;

/// One phase: the histogram of its durations, on an axis common to all phases.
pub(super) fn phase(page: &mut String, figures: &PhaseStats) {
    let durations = &figures.durations;
    let per = match figures.per {
        Per::Attempt => "an episode",
        Per::Turn => "a turn",
    };
    // Writing to a string does not fail, here and below.
    let _ = write!(
        page,
        "<div><h3>{name}, {per}</h3><p>p50 {}, p95 {}, p99 {}, max {}; {} in all</p>\
         <svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{name}\">",
        duration(durations.p50_us),
        duration(durations.p95_us),
        duration(durations.p99_us),
        duration(durations.max_us),
        duration(durations.sum_us),
        HEIGHT + AXIS,
        name = figures.phase,
    );
    let step = WIDTH / BUCKETS as f64;
    let most = durations.buckets.iter().copied().max().unwrap_or(0).max(1);
    for (bucket, &count) in durations.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Even one among millions is seen.
        let height = (HEIGHT * count as f64 / most as f64).max(1.5);
        let _ = write!(
            page,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{count}</title></rect>",
            step * bucket as f64 + 0.5,
            HEIGHT - height,
            step - 1.0,
        );
    }
    let _ = write!(page, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/>");
    for (decade, label) in [(0, "1 us"), (3, "1 ms"), (6, "1 s"), (9, "1000 s")] {
        let x = step * f64::from(decade * PER_DECADE);
        let anchor = match decade {
            0 => "start",
            9 => "end",
            _ => "middle",
        };
        let _ = write!(
            page,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>",
            HEIGHT + AXIS - 4.0
        );
    }
    page.push_str("</svg></div>\n");
}
