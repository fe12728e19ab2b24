//! A pool of terminals: sandboxes with a shell at its prompt, some of them created ahead.
//!
//! Shared by the environments whose agents have a shell.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, BoxFuture, CancelToken, CloseReport, Determinism, Fault, ImageSpec, LeaseRequest,
    NetworkPolicy, ProviderUsage, SandboxKind, SandboxLimits, TerminalSpec,
};
use clawrl_sandbox::{
    Announcer, Backends, CastConfig, Nonce, SandboxBackend, SandboxCommand, SandboxFolder, SandboxSpec,
    ShellConfig, StepLimits, WarmMarks, WarmPool, WorkspaceStart, backend_of, bash_arguments, rc_script,
    shut_down, supervisor_script, terminal_environment, warm_shares,
};
use clawrl_workspace::FixtureReader;

use crate::ready::ReadyTerminal;

/// Path inside of bash's start file, and of the script that starts bash.
const START_FILE: &str = "/.clawrl.bashrc";
const KEEPER: &str = "/.clawrl.keeper";

/// Time for a shell to show its prompt.
const PROMPT_LIMIT: Duration = Duration::from_secs(60);

/// Settings of the pool.
pub struct TerminalConfig {
    /// One backend per kind of sandbox.
    pub backends: Backends,
    /// When to create terminals ahead.
    pub marks: WarmMarks,
    /// Expected terminals, with their counts. [`Terminals::warm_up`] divides in proportion to it, and no more are
    /// created ahead.
    pub expected: Vec<(TerminalSpec, u32)>,
    /// Values held fixed.
    pub determinism: Determinism,
    /// Maximum memory of one session's recording; 0 records nothing.
    pub cast_bytes: usize,
}

/// Empty folders that tasks with images expect: for a reference solution, and for kept files.
const IMAGE_FOLDERS: &[&str] = &["/solution", "/logs/agent", "/logs/verifier", "/logs/artifacts"];

/// Tasks with equal keys share a pool of terminals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TerminalKey {
    sandbox: SandboxKind,
    size: (u16, u16),
    idle: Duration,
    observation_chars: u32,
    limits: SandboxLimits,
    network: NetworkPolicy,
    image: Option<ImageSpec>,
    read_only: Vec<PathBuf>,
}

impl TerminalKey {
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

/// State that environments share with their pool.
pub struct TerminalShared {
    backends: Backends,
    /// Values held fixed.
    pub determinism: Determinism,
    /// Reads the files of tasks.
    pub fixtures: Arc<FixtureReader>,
    /// Maximum memory of one session's recording; 0 records nothing.
    pub cast_bytes: usize,
}

/// The pool.
pub struct Terminals {
    shared: Arc<TerminalShared>,
    pool: WarmPool<TerminalKey, ReadyTerminal>,
    expected: Vec<(TerminalKey, u32)>,
}

impl Terminals {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(config: TerminalConfig) -> Self {
        let shared = Arc::new(TerminalShared {
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
        let expected = config.expected.iter().map(|(spec, leases)| (TerminalKey::of(spec), *leases));
        let expected: Vec<_> = expected.collect();
        Self { shared, pool: WarmPool::new(config.marks, expected.clone(), make), expected }
    }

    /// The shared state.
    #[must_use]
    pub fn shared(&self) -> Arc<TerminalShared> {
        Arc::clone(&self.shared)
    }

    /// Leases a terminal.
    ///
    /// # Errors
    /// A [`Fault`] at the provider boundary.
    pub async fn lease(&self, spec: &TerminalSpec, request: &LeaseRequest) -> Result<ReadyTerminal, Fault> {
        self.pool.lease_for(&TerminalKey::of(spec), request).await
    }

    /// Current usage.
    #[must_use]
    pub fn usage(&self) -> ProviderUsage {
        let backends = || self.shared.backends.values();
        ProviderUsage {
            live: backends().map(|backend| backend.live()).sum(),
            warm: self.pool.ready(),
            peak: backends().map(|backend| backend.peak()).sum(),
        }
    }

    /// Creates this many terminals ahead of the first lease.
    ///
    /// # Errors
    /// The first [`Fault`]; terminals created so far stay.
    pub async fn warm_up(&self, count: u32) -> Result<(), Fault> {
        self.pool.fill_all(warm_shares(count, &self.expected)).await
    }

    /// Ends everything that is left.
    pub async fn shutdown(&self) -> CloseReport {
        self.pool.close();
        let leftovers = shut_down(&self.shared.backends).await;
        CloseReport { leftovers, cast: None }
    }
}

impl TerminalShared {
    /// The backend of a kind.
    ///
    /// # Errors
    /// A permanent harness [`Fault`] when the run has no such backend.
    pub fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn SandboxBackend>, Fault> {
        backend_of(&self.backends, kind)
    }

    /// One line of shell that sets the variables that depend on a task or its seed, and leaves no trace in the history.
    /// `RANDOM` is bash's own generator.
    #[must_use]
    pub fn variables(&self, seed: u64, variables: &BTreeMap<String, String>) -> String {
        let mut line = format!("history -c; RANDOM={}", seed & 0x7fff);
        if self.determinism.python_hash_seed.is_none() {
            line.push_str(&format!("; export PYTHONHASHSEED={}", seed as u32));
        }
        for (name, value) in variables {
            line.push_str(&format!("; export {name}={}", quoted(value)));
        }
        line
    }

    async fn make(&self, kind: TerminalKey) -> Result<ReadyTerminal, Fault> {
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
            announced_by: Announcer::Script(KEEPER.to_owned()),
            size: kind.size,
            support_files: vec![
                (START_FILE.to_owned(), rc_script(&nonce)),
                (
                    KEEPER.to_owned(),
                    supervisor_script(&nonce, &self.backend(kind.sandbox)?.announcement(&kind.limits)),
                ),
            ],
            limits: kind.limits,
            network: kind.network,
            image: kind.image,
            workspace: WorkspaceStart::Image,
            folders,
            read_only: kind.read_only,
            inner_sandbox: false,
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
        let limits = StepLimits { deadline: Instant::now() + PROMPT_LIMIT, cancel: &CancelToken::new() };
        let session = started.terminal.shell(config, limits).await;
        let session = session.map_err(|error| no_prompt(error.to_string()))?;
        Ok(ReadyTerminal { sandbox: started.sandbox, session })
    }
}

/// A word that the shell reads as exactly this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
