//! Verdicts as one or two sentences with their numbers.
//!
//! I1. Every sentence names the metric, then the decision, then the evidence. I2. Shares are printed in percent and their harm in
//! percentage points; other numbers are printed without a unit. I3. Sentences are true of the computed numbers: counts are those of
//! the data, numbers are rounded as in tables, and rounding never makes a bound equal to the threshold it is compared with.
//!
//! Pure; nothing to cancel.

use std::fmt;

use crate::outcomes::Kind;
use crate::verdict::{Decision, Findings, GateVerdict, InconclusiveReason};

impl fmt::Display for GateVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { tasks, lower, upper, p_adjusted, p_pass, .. } = self.findings;
        let gate = &self.gate;
        let confidence = rounded(100.0 * (1.0 - gate.alpha));
        let (tolerated, min_effect) = (self.amount(gate.tolerance), self.amount(gate.min_effect));
        write!(f, "{}: ", gate.metric)?;
        match &self.decision {
            Decision::Same => {
                write!(
                    f,
                    "pass. The agent is deterministic, and all {} have the baseline's value.",
                    counted(tasks, "task")
                )
            }
            Decision::Copied => {
                write!(f, "pass. Every attempt equals the baseline's, in all {}.", counted(tasks, "task"))
            }
            Decision::Pass | Decision::Fail if self.findings.known => write!(
                f,
                "{}. {}; the agent is deterministic, so this is certain (tolerance {tolerated}).",
                if self.decision == Decision::Fail { "fail" } else { "pass" },
                self.seen(),
            ),
            Decision::Pass => write!(
                f,
                "pass. {}; with {confidence} % confidence it is {} (min_effect {min_effect}, p {}).",
                self.seen(),
                if upper < 0.0 {
                    format!("better by at least {}", self.bound(-upper, -gate.min_effect))
                } else {
                    format!("worse by at most {}", self.bound(upper, gate.min_effect))
                },
                p_value(p_pass)
            ),
            Decision::Fail => write!(
                f,
                "fail. {}; with {confidence} % confidence it is worse by at least {} (tolerance {tolerated}, p {}).",
                self.seen(),
                self.bound(lower, gate.tolerance),
                p_value(p_adjusted)
            ),
            Decision::Inconclusive(InconclusiveReason::Outcomes(missing_data)) => {
                let reasons: Vec<String> = missing_data.iter().map(ToString::to_string).collect();
                write!(f, "inconclusive: {}.", reasons.join("; "))
            }
            Decision::Inconclusive(InconclusiveReason::Variation) => {
                write!(f, "inconclusive. {}; {}", self.seen(), self.no_variance())
            }
            Decision::Inconclusive(InconclusiveReason::Copies { more }) => write!(
                f,
                "inconclusive. {}; every attempt equals the baseline's, in all {}, but further attempts may differ. About {} of each \
                 task would decide.",
                self.seen(),
                counted(tasks, "task"),
                more_repeats(*more)
            ),
            Decision::Inconclusive(InconclusiveReason::Tasks { needed }) => {
                write!(
                    f,
                    "inconclusive. {}; {}. More repeats would not decide; about {needed} tasks like these would.",
                    self.seen(),
                    self.range()
                )
            }
            Decision::Inconclusive(InconclusiveReason::Repeats { more }) => write!(
                f,
                "inconclusive. {}; {}. About {} of each task, on both sides, would decide.",
                self.seen(),
                self.range(),
                more_repeats(*more)
            ),
        }
    }
}

impl GateVerdict {
    fn seen(&self) -> String {
        let Findings { tasks, baseline, candidate, harm, .. } = self.findings;
        let amount = self.amount(harm.abs());
        let how = match amount == self.amount(0.0) {
            true => "equal to".to_owned(),
            false if harm > 0.0 => format!("{amount} worse than"),
            false => format!("{amount} better than"),
        };
        let value = |value: f64| {
            let unit = if self.is_share() { " %" } else { "" };
            format!("{}{unit}", rounded(self.scaled(value)))
        };
        let (before, after) = (value(baseline), value(candidate));
        format!("Over {} the candidate is {how} the baseline ({after} vs {before})", counted(tasks, "task"))
    }

    /// Explains that too few tasks differ to estimate the error of an unbounded number.
    fn no_variance(&self) -> String {
        let Findings { tasks, differ, .. } = self.findings;
        let all = counted(tasks, "task");
        match differ {
            0 => format!("none of {all} differs, so there is no variance to test."),
            _ if differ == tasks => {
                format!("the difference is the same in all {all}, so there is no variance to test.")
            }
            _ => format!("{differ} of {all} differ, which are too few to estimate the error."),
        }
    }

    fn range(&self) -> String {
        let Findings { lower, upper, .. } = self.findings;
        let gate = &self.gate;
        let min_effect = self.amount(gate.min_effect);
        match (lower.is_finite(), upper.is_finite()) {
            (true, true) => format!(
                "it may be worse by {} to {} (tolerance {}, min_effect {min_effect})",
                round(self.scaled(lower), self.scaled(gate.tolerance)),
                self.bound(upper, gate.min_effect),
                rounded(self.scaled(gate.tolerance)),
            ),
            _ => format!("the interval has no bounds (min_effect {min_effect})"),
        }
    }

    fn is_share(&self) -> bool {
        self.kind != Kind::Number
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.is_share() { 100.0 * value } else { value }
    }

    fn amount(&self, value: f64) -> String {
        amount_of(self.kind, value)
    }

    /// Formats a bound that is compared with a threshold.
    fn bound(&self, value: f64, against: f64) -> String {
        let number = round(self.scaled(value), self.scaled(against));
        format!("{number}{}", unit_of(self.kind))
    }
}

/// A difference with its unit.
pub(crate) fn amount_of(kind: Kind, value: f64) -> String {
    let scale = if kind == Kind::Number { 1.0 } else { 100.0 };
    format!("{}{}", rounded(scale * value), unit_of(kind))
}

fn unit_of(kind: Kind) -> &'static str {
    if kind == Kind::Number { "" } else { " points" }
}

/// A count with its noun, in the plural unless the count is 1.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn more_repeats(more: u64) -> String {
    counted(usize::try_from(more).unwrap_or(usize::MAX), "more repeat")
}

/// Maximum digits after the decimal point.
const MAX_DIGITS: usize = 9;

/// Rounds to one digit after the decimal point, or to three significant digits if the value is below 1.
pub(crate) fn rounded(value: f64) -> String {
    text(value, digits(value))
}

/// Rounds like [`rounded`], with more digits if the value would otherwise print like `against`, which it differs from.
fn round(value: f64, against: f64) -> String {
    let other = rounded(against);
    let is_other = (value - against).abs() < 1e-9;
    let told = (digits(value)..=MAX_DIGITS).map(|digits| text(value, digits));
    let fits = |told: &String| is_other || *told != other;
    told.clone().find(fits).unwrap_or(other)
}

fn digits(value: f64) -> usize {
    // Smaller values are rounding errors of zero.
    let is_small = value.abs() > 1e-9 && value.abs() < 1.0;
    if is_small { ((2.0 - value.abs().log10().floor()) as usize).min(MAX_DIGITS) } else { 1 }
}

fn text(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |value: f64, expected: &str| assert_eq!(rounded(value), expected);
        check(0.0, "0");
        check(-1e-10, "0");
        check(0.000_123_4, "0.000123");
        check(0.1 + 0.2, "0.3");
        check(12.34, "12.3");
        check(5.0, "5");
        check(100.0, "100");
        check(0.25, "0.25");
        check(-2.46, "-2.5");
    }

    #[test]
    fn a_bound_is_never_rounded_to_its_threshold() {
        let check = |value: f64, against: f64, expected: &str| {
            assert_eq!(round(value, against), expected, "{value} against {against}");
        };
        check(3.74, 10.0, "3.7");
        check(-3.76, 10.0, "-3.8");
        check(0.1 + 0.2, 10.0, "0.3");
        check(9.96, 10.0, "9.96");
        check(2.04, 2.0, "2.04");
        check(2.0, 2.0, "2");
        check(9.999_996, 10.0, "9.999996");
    }

    proptest! {
        /// I3.
        #[test]
        fn bounds_stay_near_and_on_their_side(value in -200.0f64..200.0, apart in -1.0f64..1.0) {
            let against = value + apart;
            let told: f64 = round(value, against).parse().unwrap();
            prop_assert!((told - value).abs() <= 0.05 + 1e-9, "{}", told);
            prop_assert!(apart.abs() < 1e-6 || round(value, against) != rounded(against), "{} and {}", value, against);
        }
    }
}
