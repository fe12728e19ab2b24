//! Replaces a provider that could not be made. Each lease returns the reason.

use clawrl_core::{Boundary, BoxFuture, CloseReport, Env, EnvProvider, Fault, LeaseRequest, ProviderUsage};

/// The reason why there is no provider.
#[derive(Debug)]
pub struct UnavailableProvider(pub String);

impl EnvProvider for UnavailableProvider {
    fn lease(&self, _: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async { Err(Fault::permanent(Boundary::Provider, "no-provider", self.0.clone())) })
    }

    fn usage(&self) -> ProviderUsage {
        ProviderUsage::default()
    }

    fn warm_up(&self, _: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Err(Fault::permanent(Boundary::Provider, "no-provider", self.0.clone())) })
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}
