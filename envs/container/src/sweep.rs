//! Finds containers of a run, and those that dead processes left.

use std::collections::HashMap;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListContainersOptions;
use clawrl_core::{Fault, RunId};
use clawrl_sandbox::owner_name;

use crate::EngineReport;
use crate::container::remove;
use crate::labels::{self, OWNER};

/// Result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSweep {
    /// Removed containers of dead processes.
    pub containers: u32,
    /// Messages about containers that could not be removed.
    pub leftovers: Vec<String>,
}

/// Removes containers whose maker has provably ended; those of a live process are not touched.
///
/// # Errors
/// A provider [`Fault`] when the container engine is gone.
pub async fn sweep_containers(engine: &EngineReport) -> Result<ContainerSweep, Fault> {
    let docker = engine.client()?;
    let found = labelled(&docker, OWNER)
        .await
        .map_err(|error| crate::engine::refused("listing containers", &error))?;
    let mut report = ContainerSweep::default();
    for (id, _) in found.into_iter().filter(|(_, labels)| labels::is_orphaned(labels)) {
        match remove(&docker, &id).await {
            Ok(()) => report.containers += 1,
            Err(error) => report.leftovers.push(format!("container {id}: {error}")),
        }
    }
    Ok(report)
}

/// Ids of the containers that this process created for a run.
pub(crate) async fn owned(docker: &Docker, run: &RunId) -> Result<Vec<String>, Error> {
    let found = labelled(docker, &format!("{OWNER}={}", owner_name(run))).await?;
    Ok(found.into_iter().filter(|(_, labels)| labels::is_own(labels, run)).map(|(id, _)| id).collect())
}

async fn labelled(docker: &Docker, label: &str) -> Result<Vec<(String, HashMap<String, String>)>, Error> {
    let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
    let options =
        ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
    let found = docker.list_containers(Some(options)).await?;
    Ok(found.into_iter().filter_map(|one| Some((one.id?, one.labels.unwrap_or_default()))).collect())
}
