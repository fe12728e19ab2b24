//! Finds browsers: programs of this machine, or WebDriver endpoints named by the user.

use std::sync::Arc;

use clawrl_core::Fault;
use clawrl_gui::{BrowserPrograms, BrowserSource, EndpointError, EndpointStatus, Endpoints, find_programs};

use super::engine;
use super::finding::{Finding, Health};
use crate::environment::Variable;
use crate::error::RuntimeError;

/// The source of browsers, and their description for the record.
pub(crate) struct Browsers {
    pub(crate) source: BrowserSource,
    pub(crate) version: String,
}

/// Whether browsers run on this machine.
pub(crate) fn are_here() -> bool {
    Variable::WebDriver.value().is_none()
}

/// Finds the browsers.
///
/// # Errors
/// [`RuntimeError::Unavailable`] if a program is missing, the programs' versions do not match, or no endpoint answers;
/// [`RuntimeError::Refused`] for invalid endpoints.
pub(crate) fn find() -> Result<Browsers, RuntimeError> {
    let Some(endpoints) = endpoints()? else {
        let programs = programs().map_err(RuntimeError::from)?;
        let version = programs.version.clone();
        return Ok(Browsers { source: BrowserSource::Here(programs), version });
    };
    let answers = probed(&endpoints).map_err(RuntimeError::from)?;
    if answers.iter().all(|answer| answer.said.is_err()) {
        let help = format!("{} says where they are; `clawrl doctor` asks them", Variable::WebDriver.name());
        let message = format!("no WebDriver endpoint answers (webdriver-unreachable): {}", spelled(&answers));
        return Err(RuntimeError::unavailable(message).with_help(help));
    }
    Ok(Browsers { source: BrowserSource::Endpoints(Arc::new(endpoints)), version: spelled(&answers) })
}

/// For `clawrl doctor`. Only tasks with a browser need them.
pub(crate) fn finding() -> Finding {
    let endpoints = match endpoints() {
        Ok(Some(endpoints)) => endpoints,
        Ok(None) => return finding_of_programs(),
        Err(failure) => {
            let advice = format!("write {} anew: `clawrl help environment`", Variable::WebDriver.name());
            return Finding::bad("webdriver", Health::Missing, failure.to_string(), advice);
        }
    };
    match probed(&endpoints) {
        Ok(answers) if answers.iter().all(|answer| answer.said.is_ok()) => {
            Finding::ok("webdriver", &spelled(&answers))
        }
        Ok(answers) => {
            let advice = "start those that do not answer, or name others; runs use the ones that do";
            Finding::bad("webdriver", Health::Warn, spelled(&answers), advice)
        }
        Err(fault) => Finding::bad("webdriver", Health::Warn, fault.message, "see the message"),
    }
}

fn finding_of_programs() -> Finding {
    match programs() {
        Ok(programs) => {
            Finding::ok("browser", &format!("{} ({})", programs.version, programs.browser.display()))
        }
        Err(fault) => {
            let (found, advice) = fault.message.split_once("; ").unwrap_or((&fault.message, ""));
            let advice = format!("optional, for `env: gui`: {advice}");
            Finding::bad("browser", Health::Warn, found.to_owned(), advice)
        }
    }
}

fn programs() -> Result<BrowserPrograms, Fault> {
    // Folders whose names are not Unicode are skipped.
    find_programs(&Variable::Path.path().unwrap_or_default().to_string_lossy())
}

/// The endpoints named by the user; `None` without any.
fn endpoints() -> Result<Option<Endpoints>, RuntimeError> {
    let Some(addresses) = Variable::WebDriver.value() else { return Ok(None) };
    let host = Variable::WebDriverHost.value();
    let endpoints = Endpoints::parse(&addresses, host.as_deref()).map_err(|error| {
        let variable = match error {
            EndpointError::NoHost(_) => Variable::WebDriverHost,
            _ => Variable::WebDriver,
        };
        let help = "`clawrl help environment` says what may be in it";
        RuntimeError::refused(format!("{}: {error}", variable.name())).with_help(help)
    })?;
    Ok(Some(endpoints))
}

fn probed(endpoints: &Endpoints) -> Result<Vec<EndpointStatus>, Fault> {
    engine::asked(async { Ok(endpoints.probe().await) })
}

fn spelled(answers: &[EndpointStatus]) -> String {
    let each = answers.iter().map(|EndpointStatus { address, said }| {
        format!("{address} {}", said.as_ref().unwrap_or_else(|why| why))
    });
    each.collect::<Vec<_>>().join("; ")
}
