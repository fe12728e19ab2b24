//! Non-finite numbers in JSON: they are written as `null`, and each field defines its meaning.
//!
//! Pure; nothing to cancel.

use serde::{Deserialize, Deserializer};

/// `null` is NaN.
pub(crate) fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::NAN)
}

/// `null` is infinity: there is no upper bound.
pub(crate) fn or_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::INFINITY)
}

/// `null` is minus infinity: there is no lower bound.
pub(crate) fn or_minus_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::NEG_INFINITY)
}

fn or<'de, D: Deserializer<'de>>(deserializer: D, null: f64) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(null))
}
