//! The conformance suite, over terminals in containers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_container::ContainerBackend;
use clawrl_core::{Determinism, EnvProvider, SandboxKind, TerminalSpec};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use clawrl_testkit::conformance::check_provider;
use clawrl_testkit::{populated, small_terminal, terminal_case};

use crate::engine::{backend, containers, small, with_engine};

#[test]
fn containers_conform() {
    with_engine(|engine, client| async move {
        // Each check shuts its provider down, so each has a backend of its own.
        let socket = engine.socket();
        let mut backends = Vec::new();
        for number in 0..13 {
            backends.push(backend(&socket, client.clone(), &format!("conform-{number}")).await);
        }
        let backends = std::sync::Mutex::new(backends);
        let provider =
            move || Arc::new(provider(backends.lock().unwrap().pop().unwrap())) as Arc<dyn EnvProvider>;
        let case = terminal_case(provider, terminal(), Duration::from_secs(30));
        check_provider(case).await.assert_conforms();
        assert_eq!(containers(&socket).await, 0);
    });
}

pub(crate) fn provider(backend: ContainerBackend) -> TerminalProvider {
    let backend: Arc<dyn SandboxBackend> = Arc::new(backend);
    TerminalProvider::new(TerminalConfig {
        backends: HashMap::from([(SandboxKind::Container, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(terminal(), u32::MAX)],
        determinism: Determinism::default(),
        cast_bytes: 64 * 1024,
    })
}

/// In a container of the small image, populated.
pub(crate) fn terminal() -> TerminalSpec {
    populated(TerminalSpec { sandbox: SandboxKind::Container, image: Some(small()), ..small_terminal() })
}
