//! Provides browsers: started ahead, used by one attempt after another, each in its own context.
//!
//! P1. A browser whose attempt ended cleanly is reused after its context was removed; one that broke, or was
//! interrupted, is ended.
//! P2. After a number of attempts a browser is replaced: its own state only grows.
//! P3. Idle browsers count, and together with those in use they never exceed the highest number in use at once; after
//! some idle time they are ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Env, EnvProvider, EnvSpec, Fault, Judge, LeaseRequest, ProviderUsage,
    SandboxKind,
};
use clawrl_sandbox::{Backends, LiveCount, WarmMarks, WarmPool, backend_of, shut_down, warm_shares};
use clawrl_workspace::FixtureReader;
use tokio::sync::mpsc;

use crate::bidi::Event;
use crate::browser::{Browser, BrowserKind};
use crate::browser_session::BrowserSession;
use crate::env::GuiEnv;
use crate::idle_pool::IdlePool;
use crate::programs::BrowserPrograms;
use crate::remote::{Endpoints, Sessions};
use crate::sandboxed::SandboxedBrowser;
use crate::site::SiteReader;
use crate::work_limiter::WorkLimiter;

const MAX_ATTEMPTS: u32 = 100;

/// Settings of a provider.
pub struct GuiConfig {
    /// One backend per kind of sandbox.
    pub backends: Backends,
    /// Where browsers come from.
    pub source: BrowserSource,
    /// When to start browsers ahead.
    pub marks: WarmMarks,
    /// Expected environments, with their counts.
    pub expected: Vec<(BrowserKind, u32)>,
    /// Judges answers where a check has a rubric.
    pub judge: Option<Arc<dyn Judge>>,
}

/// Where browsers come from.
#[derive(Debug, Clone)]
pub enum BrowserSource {
    /// Started on this machine, each in a sandbox.
    Here(BrowserPrograms),
    /// Requested from endpoints, which providers share.
    Endpoints(Arc<Endpoints>),
}

pub(crate) struct Shared {
    backends: Backends,
    source: BrowserSource,
    sessions: Arc<Sessions>,
    pub(crate) judge: Option<Arc<dyn Judge>>,
    pub(crate) fixtures: Arc<FixtureReader>,
    pub(crate) sites: SiteReader,
    pub(crate) count: Arc<LiveCount>,
    next: AtomicU64,
    /// Browsers without a context.
    idle: IdlePool<BrowserKind, Idle>,
    /// Limits concurrent work of local browsers.
    limiter: WorkLimiter,
}

struct Idle {
    browser: Browser,
    events: mpsc::Receiver<Event>,
    attempts: u32,
}

/// The [`EnvProvider`] of kind `gui`.
pub struct GuiProvider {
    shared: Arc<Shared>,
    pool: WarmPool<BrowserKind, BrowserSession>,
    expected: Vec<(BrowserKind, u32)>,
}

impl GuiProvider {
    /// Creates a provider with an empty pool.
    #[must_use]
    pub fn new(config: GuiConfig) -> Self {
        let shared = Arc::new(Shared {
            backends: config.backends,
            source: config.source,
            sessions: Arc::default(),
            judge: config.judge,
            fixtures: Arc::default(),
            sites: SiteReader::default(),
            count: Arc::default(),
            next: AtomicU64::new(0),
            idle: IdlePool::default(),
            limiter: WorkLimiter::default(),
        });
        let making = Arc::clone(&shared);
        let make = move |kind: BrowserKind| -> BoxFuture<'static, Result<BrowserSession, Fault>> {
            let shared = Arc::clone(&making);
            Box::pin(async move {
                let made = shared.make(kind).await;
                made.map_err(|fault| Fault { boundary: Boundary::Provider, ..fault })
            })
        };
        let pool = WarmPool::new(config.marks, config.expected.clone(), make);
        Self { shared, pool, expected: config.expected }
    }
}

impl Shared {
    /// Runs work in a browser under the concurrency limit, which does not apply to remote browsers.
    pub(crate) async fn limited<T>(&self, work: impl Future<Output = T>) -> T {
        match self.source {
            BrowserSource::Here(_) => self.limiter.take(work).await,
            BrowserSource::Endpoints(_) => work.await,
        }
    }

    async fn make(&self, kind: BrowserKind) -> Result<BrowserSession, Fault> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        while let Some(Idle { browser, events, attempts }) = self.idle.take(&kind) {
            if browser.is_lost() {
                continue;
            }
            // A browser that cannot create a context is ended, and another one is tried.
            match BrowserSession::prepare(browser, events, number, self.count.begin()).await {
                Ok(session) => return Ok(session.of(kind, attempts + 1)),
                Err(fault) => tracing::debug!(%fault, "failed to reuse a browser"),
            }
        }
        let live = self.count.begin();
        // Of another kind.
        self.end_surplus();
        let (browser, events) = match &self.source {
            BrowserSource::Endpoints(endpoints) => endpoints.start(&self.sessions).await?,
            BrowserSource::Here(_) if kind.sandbox != SandboxKind::Bubblewrap => {
                // Its network, policy and folders belong to that kind only.
                let message = "browsers run only in `sandbox: bubblewrap`";
                return Err(Fault::permanent(Boundary::Provider, "browser-sandbox", message));
            }
            BrowserSource::Here(programs) => {
                let backend = backend_of(&self.backends, kind.sandbox)?;
                let label = format!("browser-{number}");
                SandboxedBrowser::start(backend.as_ref(), programs, kind.memory_mib, label).await?
            }
        };
        Ok(BrowserSession::prepare(browser, events, number, live).await?.of(kind, 1))
    }

    /// Ends idle browsers while there are more in total than were ever in use at once.
    fn end_surplus(&self) {
        self.idle.keep(self.count.peak().saturating_sub(self.count.live()) as usize);
    }

    /// Takes a browser back after an attempt. `whole`: the attempt was not interrupted.
    pub(crate) async fn take_back(&self, mut session: BrowserSession, whole: bool) {
        let (kind, attempts) = (session.kind, session.attempts);
        if !whole || attempts >= MAX_ATTEMPTS || !session.is_clean() {
            return;
        }
        match session.discard().await {
            Ok((browser, events)) => {
                self.idle.put(kind, Idle { browser, events, attempts });
                self.end_surplus();
            }
            Err(fault) => tracing::debug!(%fault, "failed to reuse a browser"),
        }
    }
}

impl EnvProvider for GuiProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Gui(spec) = &request.task.env else {
                let message = format!("the browser provider does not support `{}`", request.task.env.kind());
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            let kind = BrowserKind { sandbox: spec.sandbox, memory_mib: spec.memory_mib };
            let mut session = self.pool.lease_for(&kind, &request).await?;
            // Sessions at endpoints end after a long idle time, and with their driver.
            while session.browser.is_lost() {
                session = self.pool.lease_for(&kind, &request).await?;
            }
            let env: Box<dyn Env> = Box::new(GuiEnv::new(Arc::clone(&self.shared), request, session));
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        let idle = u32::try_from(self.shared.idle.len()).unwrap_or(u32::MAX);
        let warm = self.pool.ready() + idle;
        ProviderUsage { live: self.shared.count.live() + idle, warm, peak: self.shared.count.peak() }
    }

    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.pool.fill_all(warm_shares(count, &self.expected)))
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            self.pool.close();
            self.shared.idle.clear();
            let mut leftovers = self.shared.sessions.end_all().await;
            leftovers.extend(shut_down(&self.shared.backends).await);
            CloseReport { leftovers, cast: None }
        })
    }
}
