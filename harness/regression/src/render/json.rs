//! The assessments as JSON, which programs read.

use crate::assessment::{Assessment, Outcome};

/// A list of all, as `clawrl ci --json` prints it.
///
/// # Errors
/// Errors of serde, which no assessment can cause.
pub fn assessments_json(gates: &[Assessment]) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(gates)? + "\n")
}

/// The worst outcome; inconclusive without any.
pub(super) fn worst(gates: &[Assessment]) -> Outcome {
    gates.iter().map(|gate| gate.outcome).max().unwrap_or(Outcome::Inconclusive)
}
