//! Provides user-provided environments: sessions with servers at once, programs each in their own sandbox, some of them
//! started ahead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, CustomLink, CustomSpec, Determinism, Env, EnvProvider, EnvSpec, Fault,
    LeaseRequest, ProviderUsage, RunId, SandboxKind,
};
use clawrl_sandbox::{
    Backends, LiveCount, SandboxBackend, WarmMarks, WarmPool, backend_of, shut_down, warm_shares,
};
use clawrl_workspace::FixtureReader;
use tokio_util::task::TaskTracker;

use crate::env::CustomEnv;
use crate::http::{HttpClient, HttpSession};
use crate::openenv::OpenenvSession;
use crate::peer::Peer;
use crate::process::{self, ProgramKey, ReadyProgram};

/// Settings of a provider.
pub struct CustomConfig {
    /// One backend per kind of sandbox.
    pub backends: Backends,
    /// When to start programs ahead.
    pub marks: WarmMarks,
    /// Expected environments, with their counts. [`EnvProvider::warm_up`] divides in proportion to it, and no more are
    /// created ahead.
    pub expected: Vec<(CustomSpec, u32)>,
    /// Values held fixed.
    pub determinism: Determinism,
    /// Prefix of every session's name, so that one server can serve several runs.
    pub run: RunId,
}

pub(crate) struct Shared {
    backends: Backends,
    determinism: Determinism,
    fixtures: Arc<FixtureReader>,
    pub(crate) run: RunId,
    pub(crate) count: Arc<LiveCount>,
    /// Sessions that are closed after their environments were dropped.
    pub(crate) closing_sessions: TaskTracker,
    /// Keyed by whether they use TLS; created when needed.
    clients: Mutex<HashMap<bool, HttpClient>>,
}

/// The [`EnvProvider`] of the kinds `process`, `http` and `openenv`.
pub struct CustomProvider {
    shared: Arc<Shared>,
    pool: WarmPool<ProgramKey, ReadyProgram>,
    /// `None` stands for environments that are not programs.
    expected: Vec<(Option<ProgramKey>, u32)>,
}

impl CustomProvider {
    /// Creates a provider with an empty pool.
    #[must_use]
    pub fn new(config: CustomConfig) -> Self {
        let shared = Arc::new(Shared {
            backends: config.backends,
            determinism: config.determinism,
            fixtures: Arc::default(),
            run: config.run,
            count: Arc::default(),
            closing_sessions: TaskTracker::new(),
            clients: Mutex::default(),
        });
        let making = Arc::clone(&shared);
        let make = move |kind: ProgramKey| -> BoxFuture<'static, Result<ReadyProgram, Fault>> {
            let shared = Arc::clone(&making);
            Box::pin(async move {
                let backend = Arc::clone(shared.backend(kind.sandbox())?);
                process::make(backend.as_ref(), kind, &shared.fixtures, &shared.determinism, &shared.count)
                    .await
            })
        };
        let expected: Vec<_> =
            config.expected.iter().map(|(spec, leases)| (ProgramKey::of(spec), *leases)).collect();
        let of_pool = expected.iter().filter_map(|(kind, leases)| Some((kind.clone()?, *leases)));
        Self { shared, pool: WarmPool::new(config.marks, of_pool.collect::<Vec<_>>(), make), expected }
    }

    async fn peer(&self, spec: &CustomSpec, request: &LeaseRequest) -> Result<Peer, Fault> {
        let most = spec.message_bytes as usize;
        match &spec.link {
            CustomLink::Process { .. } => Ok(Peer::Process(Box::new(self.place(spec, request).await?))),
            CustomLink::Http { base_url } => {
                let client = self.shared.client(base_url)?;
                Ok(Peer::Http(Box::new(HttpSession::new(client, base_url, most))))
            }
            CustomLink::Openenv { base_url, score } => {
                let client = self.shared.client(base_url)?;
                Ok(Peer::Openenv(Box::new(OpenenvSession::new(client, base_url, most, *score))))
            }
            other => {
                let message = format!("the custom provider does not support {other:?}");
                Err(Fault::permanent(Boundary::Harness, "wrong-provider", message))
            }
        }
    }

    async fn place(&self, spec: &CustomSpec, request: &LeaseRequest) -> Result<ReadyProgram, Fault> {
        let kind = ProgramKey::of(spec).ok_or_else(|| {
            Fault::permanent(
                Boundary::Harness,
                "no-program",
                "an environment without a program needs no sandbox",
            )
        })?;
        self.pool.lease_for(&kind, request).await
    }
}

impl EnvProvider for CustomProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Custom(spec) = &request.task.env else {
                let message = format!("the custom provider does not support `{}`", request.task.env.kind());
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            let peer = self.peer(spec, &request).await?;
            let env: Box<dyn Env> = Box::new(CustomEnv::new(Arc::clone(&self.shared), peer, &request));
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
            let leftovers = shut_down(&self.shared.backends).await;
            // Each of them has its own limit.
            self.shared.closing_sessions.close();
            self.shared.closing_sessions.wait().await;
            CloseReport { leftovers, cast: None }
        })
    }
}

impl Shared {
    fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
        backend_of(&self.backends, kind)
    }

    fn client(&self, base_url: &str) -> Result<HttpClient, Fault> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let secure = base_url.starts_with("https://");
        if let Some(client) = clients.get(&secure) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(base_url).map_err(|error| {
            let message = format!("failed to read this machine's certificates: {error}");
            Fault::permanent(Boundary::Provider, "certificates", message)
        })?;
        clients.insert(secure, client.clone());
        Ok(client)
    }
}
