//! The contract of every environment.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::EnvProvider;
use clawrl_testkit::conformance::check_provider;
use clawrl_testkit::{small_terminal, terminal_case};

use crate::support::{provider, with_spawner};

#[test]
fn terminals_conform() {
    with_spawner(|client| async move {
        let provider = move || Arc::new(provider(client.clone())) as Arc<dyn EnvProvider>;
        let case = terminal_case(provider, small_terminal(), Duration::from_secs(10));
        check_provider(case).await.assert_conforms();
    });
}
