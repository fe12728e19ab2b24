//! Serves environments of this process to the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Env, EnvProvider, EnvSpec, Fault, InProcessSpec, LeaseRequest,
    ProviderUsage, TaskSpec,
};

use crate::env::InProcessEnv;
use crate::episode::Environment;
use crate::row::Row;

/// The [`EnvProvider`] of kind `in_process`: environments by name.
#[derive(Default)]
pub struct InProcessProvider {
    environments: BTreeMap<String, Arc<dyn Environment>>,
    count: Arc<Count>,
}

#[derive(Default)]
struct Count {
    live: AtomicU32,
    peak: AtomicU32,
}

/// Counts an environment while it exists.
pub(crate) struct Live(Arc<Count>);

impl Live {
    fn begin(count: &Arc<Count>) -> Self {
        let live = count.live.fetch_add(1, Ordering::Relaxed) + 1;
        count.peak.fetch_max(live, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InProcessProvider {
    /// A provider of these environments. Of two with one name, the last counts.
    #[must_use]
    pub fn new(environments: impl IntoIterator<Item = Arc<dyn Environment>>) -> Self {
        let environments =
            environments.into_iter().map(|environment| (environment.name(), environment)).collect();
        Self { environments, count: Arc::default() }
    }

    fn env_of(&self, task: &TaskSpec, seed: u64) -> Result<InProcessEnv, Fault> {
        let EnvSpec::InProcess(InProcessSpec { environment: name, row }) = &task.env else {
            let message =
                format!("the provider of environments in this process cannot provide `{}`", task.env.kind());
            return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
        };
        let environment = self.environments.get(name).ok_or_else(|| {
            let message = format!("environment `{name}` is not registered in this process");
            Fault::permanent(Boundary::Provider, "unknown-environment", message)
        })?;
        let row: Row = serde_json::from_value(row.clone()).map_err(|error| {
            Fault::permanent(
                Boundary::Provider,
                "bad-row",
                format!("the row of the task is not an object: {error}"),
            )
        })?;
        Ok(InProcessEnv::new(Arc::clone(environment), row, seed, task.timeouts, Live::begin(&self.count)))
    }
}

impl EnvProvider for InProcessProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        let leased = self.env_of(&request.task, request.seed).map(|env| Box::new(env) as Box<dyn Env>);
        Box::pin(std::future::ready(leased))
    }

    fn usage(&self) -> ProviderUsage {
        let Count { live, peak } = &*self.count;
        ProviderUsage { live: live.load(Ordering::Relaxed), warm: 0, peak: peak.load(Ordering::Relaxed) }
    }

    fn warm_up(&self, _count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(std::future::ready(CloseReport::default()))
    }
}
