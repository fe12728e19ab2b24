//! Provides terminals: sandboxes with a shell at its prompt, some of them made ahead.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, BoxFuture, CancelToken, CloseReport, Determinism, Env, EnvProvider, EnvSpec, Fault, ImageSpec,
    LeaseRequest, NetworkPolicy, ProviderUsage, SandboxKind, SandboxLimits, TerminalSpec,
};
use clawrl_sandbox::{
    Announcer, CastConfig, DirectKiller, Nonce, Pty, Sandbox, SandboxBackend, SandboxCommand, SandboxFolder,
    SandboxSpec, ShellConfig, ShellSession, StepLimits, WarmMarks, WarmPool, WorkspaceStart, bash_arguments,
    rc_script, terminal_environment, warm_shares,
};
use clawrl_workspace::FixtureReader;

use crate::env::TerminalEnv;

/// Where bash's start file is, inside.
const START_FILE: &str = "/.clawrl.bashrc";

/// A shell that shows no prompt by then is given up.
const PROMPT_LIMIT: Duration = Duration::from_secs(60);

/// What a provider is made of.
pub struct TerminalConfig {
    /// One backend for each isolation that may be asked for.
    pub backends: HashMap<SandboxKind, Arc<dyn SandboxBackend>>,
    /// When to make terminals ahead.
    pub marks: WarmMarks,
    /// Terminals that will be asked for, and how often. [`EnvProvider::warm_up`] divides by it, and no more are made
    /// ahead.
    pub expected: Vec<(TerminalSpec, u32)>,
    /// What is held fixed.
    pub determinism: Determinism,
    /// Most memory of one session's recording; 0 records nothing.
    pub cast_bytes: usize,
}

/// Folders that tasks with images expect, empty: for a reference solution, and for what is to be kept.
const IMAGE_FOLDERS: &[&str] = &["/solution", "/logs/agent", "/logs/verifier", "/logs/artifacts"];

/// What two tasks must have in common to share a pool of terminals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TerminalKind {
    sandbox: SandboxKind,
    size: (u16, u16),
    idle: Duration,
    observation_chars: u32,
    limits: SandboxLimits,
    network: NetworkPolicy,
    image: Option<ImageSpec>,
    read_only: Vec<PathBuf>,
}

impl TerminalKind {
    fn of(spec: &TerminalSpec) -> Self {
        Self {
            sandbox: spec.sandbox,
            size: spec.size,
            idle: spec.idle,
            observation_chars: spec.observation_chars,
            limits: spec.limits,
            network: spec.network,
            image: spec.image.clone(),
            read_only: spec.read_only.clone(),
        }
    }
}

/// A sandbox with a shell at its prompt.
pub(crate) struct ReadyTerminal {
    /// Declared first, so dropped first: hanging the terminal up while the sandbox lives would wake the shell for
    /// nothing.
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) session: ShellSession,
}

/// What environments share with their provider.
pub(crate) struct Shared {
    pub(crate) backends: HashMap<SandboxKind, Arc<dyn SandboxBackend>>,
    pub(crate) determinism: Determinism,
    pub(crate) fixtures: Arc<FixtureReader>,
    pub(crate) cast_bytes: usize,
}

/// The [`EnvProvider`] of kind `terminal`.
pub struct TerminalProvider {
    shared: Arc<Shared>,
    pool: WarmPool<TerminalKind, ReadyTerminal>,
    expected: Vec<(TerminalKind, u32)>,
}

impl TerminalProvider {
    /// A provider with an empty pool.
    #[must_use]
    pub fn new(config: TerminalConfig) -> Self {
        let shared = Arc::new(Shared {
            backends: config.backends,
            determinism: config.determinism,
            fixtures: Arc::default(),
            cast_bytes: config.cast_bytes,
        });
        let making = Arc::clone(&shared);
        let make = move |kind| -> BoxFuture<'static, Result<ReadyTerminal, Fault>> {
            let shared = Arc::clone(&making);
            Box::pin(async move { shared.make(kind).await })
        };
        let expected = config.expected.iter().map(|(spec, leases)| (TerminalKind::of(spec), *leases));
        let expected: Vec<_> = expected.collect();
        Self { shared, pool: WarmPool::new(config.marks, expected.clone(), make), expected }
    }
}

impl EnvProvider for TerminalProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Terminal(spec) = &request.task.env else {
                let message = format!("a terminal provider cannot provide `{}`", request.task.env.kind());
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            if spec.shell != "bash" {
                let message = format!("the shell `{}` is not supported; terminals run bash", spec.shell);
                return Err(Fault::permanent(Boundary::Provider, "shell-unsupported", message));
            }
            let kind = TerminalKind::of(spec);
            let leased = self.pool.lease_for(&kind, &request).await?;
            let env: Box<dyn Env> = Box::new(TerminalEnv::new(Arc::clone(&self.shared), leased, &request));
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        let backends = || self.shared.backends.values();
        ProviderUsage {
            live: backends().map(|backend| backend.live()).sum(),
            warm: self.pool.ready(),
            peak: backends().map(|backend| backend.peak()).sum(),
        }
    }

    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.pool.fill_all(warm_shares(count, &self.expected)))
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            self.pool.close();
            let mut leftovers = Vec::new();
            for backend in self.shared.backends.values() {
                leftovers.extend(backend.shutdown().await);
            }
            CloseReport { leftovers, cast: None }
        })
    }
}

impl Shared {
    pub(crate) fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
        self.backends.get(&kind).ok_or_else(|| {
            let message = format!("no backend for `sandbox: {kind:?}` was set up for this run");
            Fault::permanent(Boundary::Harness, "no-backend", message)
        })
    }

    async fn make(&self, kind: TerminalKind) -> Result<ReadyTerminal, Fault> {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Fault::permanent(Boundary::Harness, "no-randomness", error.to_string()))?;
        let nonce = Nonce::from_bytes(random);
        let folders = if kind.image.is_some() { IMAGE_FOLDERS } else { &[] };
        let folders =
            folders.iter().map(|&path| SandboxFolder { path: path.to_owned(), files: None }).collect();
        let spec = SandboxSpec {
            label: "terminal".to_owned(),
            main: SandboxCommand {
                program: "bash".to_owned(),
                arguments: bash_arguments(START_FILE),
                environment: terminal_environment().into_iter().collect(),
            },
            announced_by: Announcer::Main,
            size: kind.size,
            support_files: vec![(
                START_FILE.to_owned(),
                format!("{}\n{}", self.backend(kind.sandbox)?.announcement(&kind.limits), rc_script(&nonce)),
            )],
            limits: kind.limits,
            network: kind.network,
            image: kind.image,
            workspace: WorkspaceStart::Image,
            folders,
            read_only: kind.read_only,
        };
        let started = self.backend(kind.sandbox)?.start(spec).await?;
        let config = ShellConfig {
            size: kind.size,
            idle: kind.idle,
            observation_chars: kind.observation_chars as usize,
            cast: CastConfig { cap_bytes: self.cast_bytes, input: false },
            ..ShellConfig::new(nonce)
        };
        let no_prompt = |error: String| Fault::transient(Boundary::Provider, "no-prompt", error);
        let pty = Pty::from_master(started.terminal).map_err(|error| no_prompt(error.to_string()))?;
        let limits = StepLimits { deadline: Instant::now() + PROMPT_LIMIT, cancel: &CancelToken::new() };
        let session = ShellSession::start(pty, config, Arc::new(DirectKiller), limits)
            .await
            .map_err(|error| no_prompt(error.to_string()))?;
        Ok(ReadyTerminal { sandbox: started.sandbox, session })
    }
}
