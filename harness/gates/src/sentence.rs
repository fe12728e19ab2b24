//! A verdict in a sentence or two of plain English, with its numbers.
//!
//! I1. Every verdict names its metric, its decision first, and what it rests on. I2. Shares are told in percent and their harm in points;
//! numbers as they are. I3. What is said holds of the numbers that were computed: counts are those of the data, numbers are
//! rounded as tables round them, and a bound that is not what it is held against is not rounded to it.
//!
//! Pure; nothing to cancel.

use std::fmt;

use crate::outcomes::Kind;
use crate::verdict::{Decision, Findings, Lack, Verdict};

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { tasks, lower, upper, p_adjusted, p_pass, .. } = self.findings;
        let gate = &self.gate;
        let confidence = rounded(100.0 * (1.0 - gate.alpha));
        let (tolerated, matters) = (self.amount(gate.tolerance), self.amount(gate.matters));
        write!(f, "{}: ", gate.metric)?;
        match &self.decision {
            Decision::Same => {
                write!(
                    f,
                    "pass. The agent is deterministic, and this is what it was in all {}.",
                    counted(tasks, "task")
                )
            }
            Decision::Copied => {
                write!(f, "pass. Attempt by attempt it is what it was, in all {}.", counted(tasks, "task"))
            }
            Decision::Pass | Decision::Fail if self.findings.known => write!(
                f,
                "{}. {}; the agent is deterministic, so that this is certain, and {tolerated} is tolerated.",
                if self.decision == Decision::Fail { "fail" } else { "pass" },
                self.seen(),
            ),
            Decision::Pass => write!(
                f,
                "pass. {}; with {confidence} % confidence it is {}, and {matters} would matter (p {}).",
                self.seen(),
                if upper < 0.0 {
                    format!("better by at least {}", self.bound(-upper, -gate.matters))
                } else {
                    format!("worse by at most {}", self.bound(upper, gate.matters))
                },
                p_value(p_pass)
            ),
            Decision::Fail => write!(
                f,
                "fail. {}; with {confidence} % confidence it is worse by at least {}, and {tolerated} is tolerated (p {}).",
                self.seen(),
                self.bound(lower, gate.tolerance),
                p_value(p_adjusted)
            ),
            Decision::Inconclusive(Lack::Outcomes(shortfalls)) => {
                let reasons: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
                write!(f, "inconclusive: {}.", reasons.join("; "))
            }
            Decision::Inconclusive(Lack::Variation) => {
                write!(f, "inconclusive. {}, {}", self.seen(), self.unvaried())
            }
            Decision::Inconclusive(Lack::Copies { more }) => write!(
                f,
                "inconclusive. {}; attempt by attempt it is what it was, in all {}, and further attempts may differ. About {} of each \
                 task would decide.",
                self.seen(),
                counted(tasks, "task"),
                more_repeats(*more)
            ),
            Decision::Inconclusive(Lack::Tasks { needed }) => {
                write!(
                    f,
                    "inconclusive. {}; {}. More repeats would not decide; about {needed} such tasks would.",
                    self.seen(),
                    self.range()
                )
            }
            Decision::Inconclusive(Lack::Repeats { more }) => write!(
                f,
                "inconclusive. {}; {}. About {} of each task, of both sides, would decide.",
                self.seen(),
                self.range(),
                more_repeats(*more)
            ),
        }
    }
}

impl Verdict {
    fn seen(&self) -> String {
        let Findings { tasks, baseline, candidate, harm, .. } = self.findings;
        let amount = self.amount(harm.abs());
        let how = match amount == self.amount(0.0) {
            true => "as good as".to_owned(),
            false if harm > 0.0 => format!("{amount} worse than"),
            false => format!("{amount} better than"),
        };
        let value = |value: f64| {
            let unit = if self.is_share() { " %" } else { "" };
            format!("{}{unit}", rounded(self.scaled(value)))
        };
        let (before, after) = (value(baseline), value(candidate));
        format!(
            "Over {} the candidate is {how} the baseline ({after} after {before})",
            counted(tasks, "task")
        )
    }

    /// How few tasks differ, so that nothing bounds a number without bounds.
    fn unvaried(&self) -> String {
        let Findings { tasks, differ, .. } = self.findings;
        let all = counted(tasks, "task");
        let unknown = "nothing says how far it may be off";
        match differ {
            0 => format!("and it differs in none of {all}, so that {unknown}."),
            _ if differ == tasks => format!("by the same in all {all}, so that {unknown}."),
            _ => format!(
                "and it differs in {differ} of {all}, which are too few to say how far it may be off."
            ),
        }
    }

    fn range(&self) -> String {
        let Findings { lower, upper, .. } = self.findings;
        let gate = &self.gate;
        let matters = self.amount(gate.matters);
        match (lower.is_finite(), upper.is_finite()) {
            (true, true) => format!(
                "it may be worse by {} to {}, where {} is tolerated and {matters} would matter",
                round(self.scaled(lower), self.scaled(gate.tolerance)),
                self.bound(upper, gate.matters),
                rounded(self.scaled(gate.tolerance)),
            ),
            _ => format!("how much worse it may be is not known, and {matters} would matter"),
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

    /// A bound that is held against a number.
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

/// A number with a word that fits it.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn more_repeats(more: u64) -> String {
    counted(usize::try_from(more).unwrap_or(usize::MAX), "more repeat")
}

/// Digits after the point, at most.
const MOST_DIGITS: usize = 9;

/// One digit after the point, or three that matter where it is small.
pub(crate) fn rounded(value: f64) -> String {
    text(value, digits(value))
}

/// The same, with as many more digits as it takes to tell it from another number that it is not.
fn round(value: f64, against: f64) -> String {
    let other = rounded(against);
    let is_other = (value - against).abs() < 1e-9;
    let told = (digits(value)..=MOST_DIGITS).map(|digits| text(value, digits));
    let fits = |told: &String| is_other || *told != other;
    told.clone().find(fits).unwrap_or(other)
}

fn digits(value: f64) -> usize {
    // Less than this is what rounding has left of nothing.
    let is_small = value.abs() > 1e-9 && value.abs() < 1.0;
    if is_small { ((2.0 - value.abs().log10().floor()) as usize).min(MOST_DIGITS) } else { 1 }
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
    fn bounds_are_not_rounded_to_what_they_are_held_against() {
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
        fn bounds_are_near_and_on_their_side(value in -200.0f64..200.0, apart in -1.0f64..1.0) {
            let against = value + apart;
            let told: f64 = round(value, against).parse().unwrap();
            prop_assert!((told - value).abs() <= 0.05 + 1e-9, "{}", told);
            prop_assert!(apart.abs() < 1e-6 || round(value, against) != rounded(against), "{} and {}", value, against);
        }
    }
}
