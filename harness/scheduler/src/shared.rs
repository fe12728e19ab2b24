//! State shared by all executors of a run. Only its metrics change.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{BlobStore, EnvProvider, EpisodeSink, Policy, RunPlan, TaskSpec};
use tokio::time::Instant;

use crate::limits::SchedulerTimeouts;
use crate::progress::Progress;

/// Read by executors, made by the scheduler.
pub(crate) struct Shared {
    pub(crate) plan: Arc<RunPlan>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) sink: Arc<dyn EpisodeSink>,
    /// The blob store of the sink.
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) providers: BTreeMap<&'static str, Arc<dyn EnvProvider>>,
    pub(crate) progress: Progress,
    pub(crate) timeouts: SchedulerTimeouts,
    pub(crate) started: Instant,
}

impl Shared {
    /// The provider of the task's kind of environment; that it is there was checked before the run.
    pub(crate) fn provider_of(&self, task: &TaskSpec) -> &dyn EnvProvider {
        &*self.providers[task.env.kind()]
    }
}
