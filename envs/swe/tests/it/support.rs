//! A provider on a spawner of its own.

use std::collections::HashMap;
use std::sync::Arc;

use clawrl_core::{Determinism, EnvProvider, RunId, SandboxKind};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, SandboxBackend, WarmMarks, probe_host,
};
use clawrl_swe::{SweConfig, SweProvider};
use clawrl_testkit::swe_spec;

/// Runs `test` on a runtime with a connection to a spawner.
pub(crate) fn with_spawner<F: Future<Output = ()>>(test: impl FnOnce(SpawnerClient) -> F) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async { test(SpawnerClient::attach(spawner).unwrap()).await });
}

/// Runs `test` with a provider, and checks that nothing is left.
pub(crate) fn with_provider<F: Future<Output = ()>>(test: impl FnOnce(Arc<SweProvider>) -> F) {
    with_spawner(|client| async move {
        let provider = Arc::new(provider(client));
        test(Arc::clone(&provider)).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
    });
}

pub(crate) fn provider(client: SpawnerClient) -> SweProvider {
    let config = BubblewrapConfig {
        host: probe_host(CgroupHost::detect()).unwrap(),
        run: RunId::new("test-swe").unwrap(),
        determinism: Determinism::default(),
    };
    let backend: Arc<dyn SandboxBackend> = Arc::new(BubblewrapBackend::new(client, config).unwrap());
    SweProvider::new(SweConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(swe_spec(), u32::MAX)],
        determinism: Determinism::default(),
        cast_bytes: 0,
    })
}
