//! Keys of attempts, which authenticate programs at the endpoint.

use clawrl_core::{Boundary, Fault};

/// Number of random bytes.
const BYTES: usize = 24;

/// An unguessable key. It opens only the endpoint, and only during its attempt.
///
/// # Errors
/// The machine has no source of randomness.
pub(super) fn fresh() -> Result<String, Fault> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Fault::permanent(Boundary::Harness, "no-randomness", format!("no key can be made: {error}"))
    })?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("clawrl-{digits}"))
}
