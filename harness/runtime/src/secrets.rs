//! The secrets that tasks name, read once before anything is started.
//!
//! I1. No message shows a value, only the name of a variable and the place that asks for it.

use std::collections::BTreeMap;

use clawrl_core::{EnvSpec, RunPlan};

use crate::environment;
use crate::error::RuntimeError;

/// The variables that tasks of a plan name, each with the first place that names it.
pub fn named(plan: &RunPlan) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for task in &plan.tasks {
        let EnvSpec::Toolcall(toolcall) = &task.env else { continue };
        for (place, source) in toolcall.sources() {
            if let Some(variable) = source.variable() {
                named.entry(variable.to_owned()).or_insert_with(|| format!("task {}: {place}", task.id.0));
            }
        }
    }
    named
}

/// The values of those variables.
///
/// # Errors
/// [`RuntimeError::Refused`] for a variable that is not set, with its name and place.
pub(crate) fn of(plan: &RunPlan) -> Result<BTreeMap<String, String>, RuntimeError> {
    let value = |(name, place): (String, String)| match environment::named(&name) {
        Some(value) => Ok((name, value)),
        None => {
            let message = format!("the environment variable {name} is not set, and {place} needs it");
            let help =
                format!("set it where you start `clawrl`: `export {name}=...`; its value is never recorded");
            Err(RuntimeError::refused(message).with_help(help))
        }
    };
    named(plan).into_iter().map(value).collect()
}
