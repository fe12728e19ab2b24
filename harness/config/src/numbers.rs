//! Numbers within bounds, the same words for every kind of file.

use std::ops::RangeInclusive;

use crate::bounds;
use crate::file::Located;
use crate::problem::{Finding, Findings};

/// Allowed numbers: the rule, and its wording as the end of "write a number ...".
pub(crate) struct Reals {
    pub(crate) accepts: fn(f64) -> bool,
    pub(crate) words: &'static str,
}

impl Findings {
    /// A whole number within bounds, or the default.
    pub(crate) fn whole(
        &mut self,
        key: &str,
        number: Option<&Located<i64>>,
        bounds: RangeInclusive<i64>,
        default: u32,
    ) -> u32 {
        let Some(number) = number else { return default };
        match u32::try_from(number.value) {
            Ok(value) if bounds.contains(&number.value) => value,
            _ => {
                let (low, high) = bounds.into_inner();
                let message = format!("`{key}` cannot be {}", number.value);
                let nearest = number.value.clamp(low, high);
                let help = format!("write a number from {low} to {high}, such as `{key}: {nearest}`");
                self.add(number.span, Finding { message, label: "out of bounds", help });
                default
            }
        }
    }

    /// Root of seeds. Default: 0.
    pub(crate) fn seed(&mut self, seed: Option<&Located<i64>>) -> u64 {
        let Some(seed) = seed else { return 0 };
        if !(0..=bounds::MAX_SEED).contains(&seed.value) {
            let message = format!("`seed` cannot be {}", seed.value);
            let help = format!("write a whole number from 0 to {}", bounds::MAX_SEED);
            self.add(seed.span, Finding { message, label: "out of bounds", help });
        }
        seed.value.unsigned_abs()
    }

    /// A number that a rule accepts, or the default.
    pub(crate) fn real(
        &mut self,
        key: &str,
        number: Option<&Located<f64>>,
        rule: &Reals,
        default: f64,
    ) -> f64 {
        let Some(number) = number else { return default };
        if number.value.is_finite() && (rule.accepts)(number.value) {
            return number.value;
        }
        let message = format!("`{key}` cannot be {}", number.value);
        let help = format!("write a number {}, such as `{key}: {default}`", rule.words);
        self.add(number.span, Finding { message, label: "out of bounds", help });
        default
    }
}
