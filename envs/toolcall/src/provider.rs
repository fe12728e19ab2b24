//! Provides tool environments: immediately if no tool is a program, otherwise with a sandbox, some of them created
//! ahead.

use std::sync::Arc;

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Determinism, Env, EnvProvider, EnvSpec, Fault, Guarded, Judge,
    LeaseRequest, ProviderUsage, SandboxKind, ToolcallSpec,
};
use clawrl_sandbox::{
    Backends, LiveCount, SandboxBackend, WarmMarks, WarmPool, backend_of, shut_down, warm_shares,
};
use clawrl_workspace::{FixtureReader, SchemaCache};

use crate::env::ToolcallEnv;
use crate::http::HttpClients;
use crate::mcp::McpPool;
use crate::ready_sandbox::{self, ReadySandbox, SandboxKey};
use crate::secret::Secrets;
use crate::toolbox::Toolbox;

/// Settings of a provider.
pub struct ToolcallConfig {
    /// One backend per kind of sandbox.
    pub backends: Backends,
    /// When to create sandboxes ahead.
    pub marks: WarmMarks,
    /// Expected environments, with their counts. [`EnvProvider::warm_up`] divides in proportion to it, and no more are
    /// created ahead.
    pub expected: Vec<(ToolcallSpec, u32)>,
    /// Values held fixed.
    pub determinism: Determinism,
    /// Values of the environment variables that tasks name.
    pub secrets: Secrets,
    /// Judges whether answers meet rubrics; required if a task has one.
    pub judge: Option<Arc<dyn Judge>>,
}

pub(crate) struct Shared {
    backends: Backends,
    pub(crate) determinism: Determinism,
    pub(crate) fixtures: Arc<FixtureReader>,
    pub(crate) schemas: SchemaCache,
    pub(crate) secrets: Secrets,
    pub(crate) judge: Option<Arc<dyn Judge>>,
    pub(crate) http: Arc<HttpClients>,
    pub(crate) mcp: McpPool,
    pub(crate) count: Arc<LiveCount>,
}

/// The [`EnvProvider`] of kind `toolcall`.
pub struct ToolcallProvider {
    shared: Arc<Shared>,
    pool: WarmPool<SandboxKey, ReadySandbox>,
    /// `None` stands for environments without a sandbox.
    expected: Vec<(Option<SandboxKey>, u32)>,
}

impl ToolcallProvider {
    /// Creates a provider with an empty pool.
    #[must_use]
    pub fn new(config: ToolcallConfig) -> Self {
        let shared = Arc::new(Shared {
            backends: config.backends,
            determinism: config.determinism,
            fixtures: Arc::default(),
            schemas: SchemaCache::default(),
            secrets: config.secrets,
            judge: config.judge,
            http: Arc::default(),
            mcp: McpPool::default(),
            count: Arc::default(),
        });
        let making = Arc::clone(&shared);
        let make = move |kind: SandboxKey| -> BoxFuture<'static, Result<ReadySandbox, Fault>> {
            let shared = Arc::clone(&making);
            Box::pin(async move {
                let backend = Arc::clone(shared.backend(kind.sandbox)?);
                ready_sandbox::make(backend.as_ref(), kind, &shared.determinism, &shared.count).await
            })
        };
        let expected: Vec<_> =
            config.expected.iter().map(|(spec, leases)| (SandboxKey::of(spec), *leases)).collect();
        let of_pool = expected.iter().filter_map(|(kind, leases)| Some((kind.clone()?, *leases)));
        Self { shared, pool: WarmPool::new(config.marks, of_pool.collect::<Vec<_>>(), make), expected }
    }

    async fn lease_sandbox(
        &self,
        spec: &ToolcallSpec,
        request: &LeaseRequest,
    ) -> Result<Option<ReadySandbox>, Fault> {
        let Some(kind) = SandboxKey::of(spec) else { return Ok(None) };
        self.pool.lease_for(&kind, request).await.map(Some)
    }
}

impl EnvProvider for ToolcallProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Toolcall(spec) = &request.task.env else {
                let message = format!("the tool provider does not support `{}`", request.task.env.kind());
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            let toolbox = Toolbox::new(spec, &self.shared.schemas, &self.shared.secrets, &self.shared.http)?;
            let ready = self.lease_sandbox(spec, &request).await?;
            let env: Box<dyn Env> =
                Box::new(Guarded::new(ToolcallEnv::new(Arc::clone(&self.shared), toolbox, ready, &request)));
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        ProviderUsage {
            live: self.shared.count.live(),
            warm: self.pool.ready(),
            peak: self.shared.count.peak(),
        }
    }

    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        let shares = warm_shares(count, &self.expected);
        Box::pin(self.pool.fill_all(shares.into_iter().filter_map(|(kind, count)| Some((kind?, count)))))
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            self.pool.close();
            self.shared.mcp.close().await;
            let leftovers = shut_down(&self.shared.backends).await;
            CloseReport { leftovers, cast: None }
        })
    }
}

impl Shared {
    pub(crate) fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
        backend_of(&self.backends, kind)
    }
}
