//! A verdict in a sentence or two of plain English, with its numbers.
//!
//! I1. Every verdict names its metric, its decision first, and what it rests on. I2. Passes are told in percent and their harm in points;
//! numbers as they are.
//!
//! Pure; nothing to cancel.

use std::fmt;

use crate::outcomes::Kind;
use crate::verdict::{Decision, Findings, Lack, Verdict};

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { tasks, lower, upper, p_adjusted, p_pass, .. } = self.findings;
        let gate = &self.gate;
        let confidence = round(100.0 * (1.0 - gate.alpha));
        write!(f, "{}: ", gate.metric)?;
        match &self.decision {
            Decision::Same => {
                write!(
                    f,
                    "pass. The agent is deterministic, and did the same in all {}.",
                    counted(tasks, "task")
                )
            }
            Decision::Copied => {
                write!(f, "pass. Attempt by attempt it is what it was, in all {}.", counted(tasks, "task"))
            }
            Decision::Pass => write!(
                f,
                "pass. {}; with {confidence} % confidence it is {}, and {} would matter (p {}).",
                self.seen(),
                if upper < 0.0 {
                    format!("better by more than {}", self.amount(-upper))
                } else {
                    format!("worse by less than {}", self.amount(upper))
                },
                self.amount(gate.matters),
                p_value(p_pass)
            ),
            Decision::Fail => write!(
                f,
                "fail. {}; with {confidence} % confidence it is worse by at least {}, and {} is tolerated (p {}).",
                self.seen(),
                self.amount(lower),
                self.amount(gate.tolerance),
                p_value(p_adjusted)
            ),
            Decision::Inconclusive(Lack::Outcomes(shortfalls)) => {
                let reasons: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
                write!(f, "inconclusive: {}.", reasons.join("; "))
            }
            Decision::Inconclusive(Lack::Variation) => write!(
                f,
                "inconclusive. {}, by the same in all {}: without any variation nothing says how far it may be off.",
                self.seen(),
                counted(tasks, "task")
            ),
            Decision::Inconclusive(Lack::Tasks { needed }) => {
                write!(f, "inconclusive. {}; {}. It takes about {needed} tasks.", self.seen(), self.range())
            }
            Decision::Inconclusive(Lack::Repeats { more }) => write!(
                f,
                "inconclusive. {}; {}. About {} of each task, of both sides, would decide.",
                self.seen(),
                self.range(),
                counted(usize::try_from(*more).unwrap_or(usize::MAX), "more repeat")
            ),
        }
    }
}

impl Verdict {
    fn seen(&self) -> String {
        let Findings { tasks, baseline, candidate, harm, .. } = self.findings;
        let how = match harm {
            0.0 => "as good as".to_owned(),
            worse if worse > 0.0 => format!("{} worse than", self.amount(worse)),
            better => format!("{} better than", self.amount(-better)),
        };
        let (value, scale) = if self.kind == Kind::PassFail { (" %", 100.0) } else { ("", 1.0) };
        let (before, after) = (round(scale * baseline), round(scale * candidate));
        format!(
            "Over {} the candidate is {how} the baseline ({after}{value} after {before}{value})",
            counted(tasks, "task")
        )
    }

    fn range(&self) -> String {
        let Findings { lower, upper, .. } = self.findings;
        let matters = self.amount(self.gate.matters);
        match (lower.is_finite(), upper.is_finite()) {
            (true, true) => format!(
                "it may be worse by {} to {}, where {} is tolerated and {matters} would matter",
                round(self.scaled(lower)),
                self.amount(upper),
                round(self.scaled(self.gate.tolerance)),
            ),
            _ => format!("how much worse it may be is not known, and {matters} would matter"),
        }
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.kind == Kind::PassFail { 100.0 * value } else { value }
    }

    fn amount(&self, value: f64) -> String {
        let unit = if self.kind == Kind::PassFail { " points" } else { "" };
        format!("{}{unit}", round(self.scaled(value)))
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// One digit after the point, or three that matter where it is small.
fn round(value: f64) -> String {
    // Less than this is what rounding has left of nothing.
    let is_small = value.abs() > 1e-9 && value.abs() < 1.0;
    let digits = if is_small { (2.0 - value.abs().log10().floor()) as usize } else { 1 };
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |value: f64, expected: &str| assert_eq!(round(value), expected);
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
}
