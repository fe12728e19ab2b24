//! A progress bar with metrics below it, redrawn in place.
//!
//! I1. The cursor stays visible and no terminal setting changes, so that a killed process leaves the terminal usable.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::figures::{Figures, brief};

/// Redraws per second; more would not be visible.
const REDRAWS: u8 = 10;

/// An empty bar for a run of this many slots.
pub(super) fn bar(slots: u32) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS);
    let bar = ProgressBar::with_draw_target(Some(u64::from(slots)), target);
    // Every test that draws would detect an invalid template; the default style is the fallback.
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {percent:>3} %\n{msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> "))
}

/// Updates the bar.
pub(super) fn update(bar: &ProgressBar, figures: &Figures) {
    let mut text = figures.counts();
    text += &format!("\n{}, {} so far", figures.rates(), brief(figures.elapsed));
    if let Some(left) = figures.time_left() {
        text += &format!(", {} left", brief(left));
    }
    text += &format!("\n{}", figures.medians());
    bar.set_position(figures.run.closed.into());
    bar.set_message(text);
}
