//! The assessments as JSON, which programs read.

use serde::Serialize;

use crate::assessment::{ASSESSMENT_FORMAT, Assessment, Outcome};

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    outcome: Outcome,
    gates: &'a [Assessment],
}

/// Every gate, and the worst of their outcomes; nothing judged is nothing passed.
///
/// # Errors
/// None that an assessment can cause; serde's type is handed on.
pub fn json(gates: &[Assessment]) -> Result<String, serde_json::Error> {
    let document = Document { format: ASSESSMENT_FORMAT, outcome: worst(gates), gates };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The worst outcome; inconclusive without any.
pub(super) fn worst(gates: &[Assessment]) -> Outcome {
    gates.iter().map(|gate| gate.outcome).max().unwrap_or(Outcome::Inconclusive)
}
