//! Provides software engineering environments.

use std::time::Duration;

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Determinism, Env, EnvProvider, EnvSpec, Fault, Guarded, LeaseRequest,
    ProviderUsage, SweSpec, TerminalSpec,
};
use clawrl_sandbox::{Backends, WarmMarks};
use clawrl_terminal::{TerminalConfig, Terminals};

use crate::env::SweEnv;

/// Idle time after which a program that waits for input is interrupted: no input will come.
const IDLE: Duration = Duration::from_secs(2);

/// Wide enough that programs do not wrap lines of source code.
const SIZE: (u16, u16) = (200, 50);

/// Settings of a provider.
pub struct SweConfig {
    /// One backend per kind of sandbox.
    pub backends: Backends,
    /// When to create sandboxes ahead.
    pub marks: WarmMarks,
    /// Expected environments, with their counts.
    pub expected: Vec<(SweSpec, u32)>,
    /// Values held fixed.
    pub determinism: Determinism,
    /// Maximum memory of one session's recording; 0 records nothing.
    pub cast_bytes: usize,
}

/// The [`EnvProvider`] of kind `swe`.
pub struct SweProvider {
    terminals: Terminals,
}

impl SweProvider {
    /// Creates a provider with an empty pool.
    #[must_use]
    pub fn new(config: SweConfig) -> Self {
        let SweConfig { backends, marks, expected, determinism, cast_bytes } = config;
        let expected = expected.iter().map(|(spec, leases)| (terminal(spec), *leases)).collect();
        Self {
            terminals: Terminals::new(TerminalConfig { backends, marks, expected, determinism, cast_bytes }),
        }
    }
}

/// The shell that the agent works in.
fn terminal(spec: &SweSpec) -> TerminalSpec {
    let workspace = &spec.workspace;
    TerminalSpec {
        size: SIZE,
        idle: IDLE,
        observation_chars: spec.observation_chars,
        sandbox: workspace.sandbox,
        limits: workspace.limits,
        network: workspace.network,
        image: workspace.image.clone(),
        read_only: workspace.read_only.clone(),
        ..TerminalSpec::default()
    }
}

impl EnvProvider for SweProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Swe(spec) = &request.task.env else {
                let message = format!(
                    "the software engineering provider does not support `{}`",
                    request.task.env.kind()
                );
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            let leased = self.terminals.lease(&terminal(spec), &request).await?;
            let env: Box<dyn Env> =
                Box::new(Guarded::new(SweEnv::new(self.terminals.shared(), leased, &request)));
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        self.terminals.usage()
    }

    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.terminals.warm_up(count))
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(self.terminals.shutdown())
    }
}
