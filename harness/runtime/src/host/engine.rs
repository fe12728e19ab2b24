//! The container engines, asked before any thread exists.
//!
//! The requests run on the calling thread, which is still the only thread afterwards, as the spawner requires.

use clawrl_container::{
    ContainerSweep, DEFAULT_SOCKET, EngineAccess, EngineReport, probe_engines, sweep_containers,
};
use clawrl_core::{Boundary, Fault};

use super::finding::{Finding, Health};
use crate::environment::Variable;
use crate::error::RuntimeError;
use crate::progress::Progress;

/// Finds the engines, and removes leftovers of dead runs.
///
/// # Errors
/// [`RuntimeError::Unavailable`] if there is no engine whose containers this process can enter.
pub fn prepare(progress: &dyn Progress) -> Result<Vec<EngineReport>, RuntimeError> {
    let found = asked(async {
        let engines = probe_engines(&access()).await?;
        let swept = swept(&engines).await?;
        Ok((engines, swept))
    });
    let (engines, swept) = found.map_err(RuntimeError::from)?;
    if swept.containers > 0 {
        progress.note(format_args!("swept what a dead run had left: {} containers", swept.containers));
    }
    for leftover in &swept.leftovers {
        progress.warn(format_args!("a dead run left {leftover}, which cannot be removed"));
    }
    Ok(engines)
}

/// Removes leftovers of dead runs.
pub fn sweep() -> Result<ContainerSweep, Fault> {
    asked(async { swept(&probe_engines(&access()).await?).await })
}

async fn swept(engines: &[EngineReport]) -> Result<ContainerSweep, Fault> {
    let mut all = ContainerSweep::default();
    for engine in engines {
        let swept = sweep_containers(engine).await?;
        all.containers += swept.containers;
        all.leftovers.extend(swept.leftovers);
    }
    Ok(all)
}

/// For `clawrl doctor`. Only tasks with containers need an engine.
pub fn finding() -> Finding {
    match asked(async { probe_engines(&access()).await }) {
        Ok(engines) => {
            let each = engines.iter().map(|engine| {
                let through = if engine.through_node { ", entered by a node beside it" } else { "" };
                format!("Docker {} on {} ({}{through})", engine.version, engine.storage, engine.socket)
            });
            Finding::ok("engine", &each.collect::<Vec<_>>().join("; "))
        }
        Err(fault) => {
            let (found, advice) = fault
                .message
                .split_once("; ")
                .or_else(|| fault.message.split_once(". "))
                .unwrap_or((&fault.message, "only tasks with `sandbox: container` need one"));
            let advice = format!("optional, for `sandbox: container`: {advice}");
            Finding::bad("engine", Health::Warn, found.to_owned(), advice)
        }
    }
}

fn access() -> EngineAccess {
    let addresses = Variable::DockerHost.value().unwrap_or_else(|| DEFAULT_SOCKET.to_owned());
    let usual = || {
        let own = || Some(Variable::Home.path()?.join(".docker"));
        Variable::DockerConfig.path().or_else(own)
    };
    let certificates =
        Variable::DockerTls.value().and_then(|_| Variable::DockerCertificates.path().or_else(usual));
    EngineAccess { addresses, certificates }
}

/// Runs a request on a separate runtime, which ends afterwards.
pub(super) fn asked<T>(question: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Fault::permanent(Boundary::Harness, "runtime", error.to_string()))?;
    runtime.block_on(question)
}
