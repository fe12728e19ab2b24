//! Numbers that JSON has no word for: they are written as `null`, and each field knows which one it stands for.
//!
//! Pure; nothing to cancel.

use serde::{Deserialize, Deserializer};

/// `null` is no number.
pub(crate) fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::NAN)
}

/// `null` is a bound that there is none of, above.
pub(crate) fn or_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::INFINITY)
}

/// The same below.
pub(crate) fn or_minus_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    or(deserializer, f64::NEG_INFINITY)
}

fn or<'de, D: Deserializer<'de>>(deserializer: D, null: f64) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(null))
}
