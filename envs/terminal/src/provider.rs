//! Provides terminal environments.

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Env, EnvProvider, EnvSpec, Fault, Guarded, LeaseRequest, ProviderUsage,
};

use crate::env::TerminalEnv;
use crate::pool::{TerminalConfig, Terminals};

/// The [`EnvProvider`] of kind `terminal`.
pub struct TerminalProvider {
    terminals: Terminals,
}

impl TerminalProvider {
    /// Creates a provider with an empty pool.
    #[must_use]
    pub fn new(config: TerminalConfig) -> Self {
        Self { terminals: Terminals::new(config) }
    }
}

impl EnvProvider for TerminalProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            let EnvSpec::Terminal(spec) = &request.task.env else {
                let message = format!("the terminal provider does not support `{}`", request.task.env.kind());
                return Err(Fault::permanent(Boundary::Harness, "wrong-provider", message));
            };
            if spec.shell != "bash" {
                let message = format!("the shell `{}` is not supported; terminals run bash", spec.shell);
                return Err(Fault::permanent(Boundary::Provider, "shell-unsupported", message));
            }
            let leased = self.terminals.lease(spec, &request).await?;
            let env: Box<dyn Env> =
                Box::new(Guarded::new(TerminalEnv::new(self.terminals.shared(), leased, &request)));
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
