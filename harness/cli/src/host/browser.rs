//! The browser and its driver.

use clawrl_core::Fault;
use clawrl_gui::{BrowserPrograms, find_programs};

use super::examination::{bad, ok};
use crate::command::doctor::{Finding, Health};
use crate::environment::Variable;
use crate::failure::Failure;

/// Finds them.
///
/// # Errors
/// [`crate::exit_code::Exit::Environment`] when one is missing, or they are no pair.
pub(crate) fn find() -> Result<BrowserPrograms, Failure> {
    asked().map_err(|fault| Failure::from_fault(&fault))
}

/// For `clawrl doctor`. Runs work without them, as long as no task has a browser.
pub(crate) fn finding() -> Finding {
    match asked() {
        Ok(programs) => ok("browser", &format!("{} ({})", programs.version, programs.browser.display())),
        Err(fault) => {
            let (found, advice) = fault.message.split_once("; ").unwrap_or((&fault.message, ""));
            let advice = format!("optional, for `env: gui`: {advice}");
            bad("browser", Health::Warn, found.to_owned(), advice)
        }
    }
}

fn asked() -> Result<BrowserPrograms, Fault> {
    find_programs(&Variable::Path.value().unwrap_or_default())
}
