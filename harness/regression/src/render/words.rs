//! Formats the numbers of assessments, equally for every rendering.
//!
//! W1. A missing number is `n/a`, and a missing bound is described. W2. Shares are printed in percent and
//! their differences in points.
//!
//! Pure; nothing to cancel.

use clawrl_gates::GateVerdict;
use clawrl_record::percent;

use crate::assessment::{Counts, MetricVerdict, Unit};

/// Text for a missing number.
pub(crate) const NONE: &str = "n/a";

/// A number of one side.
pub(crate) fn unsigned(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    match unit {
        Unit::Share => percent(value),
        Unit::Reward => format!("{value:.3}"),
        Unit::Turns => format!("{value:.1}"),
        Unit::Tokens => format!("{value:.0}"),
        Unit::Usd => format!("{} USD", fine(value)),
        Unit::Seconds => format!("{} s", fine(value)),
    }
}

/// A difference of two sides; values that round to zero have no sign.
pub(crate) fn signed(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let number = number(unit, value);
    let sign = if number.starts_with('-') || is_nothing(&number) { "" } else { "+" };
    format!("{sign}{number}{}", suffix(unit))
}

/// An interval, or the bound that exists.
pub(crate) fn interval(unit: Unit, low: f64, high: f64) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", signed_number(unit, low), signed(unit, high)),
        (true, false) => format!("{} or more", signed(unit, low)),
        (false, true) => format!("{} or less", signed(unit, high)),
        (false, false) => NONE.to_owned(),
    }
}

fn signed_number(unit: Unit, value: f64) -> String {
    let number = number(unit, value);
    if number.starts_with('-') || is_nothing(&number) { number } else { format!("+{number}") }
}

fn number(unit: Unit, value: f64) -> String {
    let text = match unit {
        Unit::Share => format!("{:.1}", 100.0 * value),
        Unit::Reward => format!("{value:.3}"),
        Unit::Turns => format!("{value:.1}"),
        Unit::Tokens => format!("{value:.0}"),
        Unit::Usd | Unit::Seconds => fine(value),
    };
    if is_nothing(&text) { text.trim_start_matches('-').to_owned() } else { text }
}

/// Rounds to hundredths, or to three significant digits for smaller numbers.
fn fine(value: f64) -> String {
    // Smaller values are rounding errors of zero.
    let is_small = value.abs() > 1e-9 && value.abs() < 1.0;
    let digits = if is_small { (2.0 - value.abs().log10().floor()) as usize } else { 2 };
    format!("{value:.digits$}")
}

fn is_nothing(number: &str) -> bool {
    number.chars().all(|c| matches!(c, '-' | '0' | '.'))
}

fn suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => " points",
        Unit::Reward => "",
        Unit::Turns => " turns",
        Unit::Tokens => " tokens",
        Unit::Usd => " USD",
        Unit::Seconds => " s",
    }
}

/// Passes, with faults and missing attempts.
pub(crate) fn counts(counts: &Counts) -> String {
    let Counts { passes, attempts, faults, missing } = *counts;
    let mut text = if attempts == 0 { "none graded".to_owned() } else { format!("{passes} of {attempts}") };
    if faults > 0 {
        text += &format!(", {}", counted(u64::from(faults), "fault"));
    }
    if missing > 0 {
        text += &format!(", {missing} missing");
    }
    text
}

/// A number with a word that fits it.
pub(crate) fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// The numbers of a metric as a row.
pub(crate) struct MetricRow {
    pub(crate) baseline: String,
    pub(crate) candidate: String,
    pub(crate) worse_by: String,
    pub(crate) interval: String,
    pub(crate) tolerated: String,
    pub(crate) min_effect: String,
}

impl MetricRow {
    /// Row of one metric.
    pub(crate) fn of(metric: &MetricVerdict) -> Self {
        let GateVerdict { gate, findings, .. } = &metric.verdict;
        let unit = metric.unit;
        Self {
            baseline: unsigned(unit, findings.baseline),
            candidate: unsigned(unit, findings.candidate),
            worse_by: signed(unit, findings.harm),
            interval: interval(unit, findings.lower, findings.upper),
            tolerated: format!("{}{}", number(unit, gate.tolerance), suffix(unit)),
            min_effect: format!("{}{}", number(unit, gate.min_effect), suffix(unit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_sign_and_unit() {
        let check = |unit, value: f64, expected: &str| assert_eq!(signed(unit, value), expected);
        check(Unit::Share, 0.05, "+5.0 points");
        check(Unit::Share, -0.0251, "-2.5 points");
        check(Unit::Share, -0.000_01, "0.0 points");
        check(Unit::Share, f64::NAN, "n/a");
        check(Unit::Turns, 1.25, "+1.2 turns");
        check(Unit::Usd, -0.0042, "-0.00420 USD");
        check(Unit::Usd, 0.000_012_34, "+0.0000123 USD");
        check(Unit::Usd, 12.5, "+12.50 USD");
        check(Unit::Usd, 1e-12, "0.00 USD");
        check(Unit::Seconds, 0.0, "0.00 s");
    }

    #[test]
    fn w1_bounds_that_there_are_none_of() {
        let check = |low: f64, high: f64, expected: &str| {
            assert_eq!(interval(Unit::Share, low, high), expected);
        };
        check(-0.01, 0.05, "-1.0 to +5.0 points");
        check(f64::NEG_INFINITY, 0.05, "+5.0 points or less");
        check(0.01, f64::INFINITY, "+1.0 points or more");
        check(f64::NEG_INFINITY, f64::INFINITY, "n/a");
    }

    #[test]
    fn counts_include_faults_and_missing() {
        let check = |passes, attempts, faults, missing, expected: &str| {
            assert_eq!(counts(&Counts { passes, attempts, faults, missing }), expected);
        };
        check(3, 4, 0, 0, "3 of 4");
        check(3, 4, 1, 2, "3 of 4, 1 fault, 2 missing");
        check(0, 0, 4, 0, "none graded, 4 faults");
    }
}
