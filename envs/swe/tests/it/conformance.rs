//! The contract of every environment.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::EnvProvider;
use clawrl_testkit::conformance::check_provider;
use clawrl_testkit::{swe_case, swe_spec};

use crate::support::{provider, with_spawner};

#[test]
fn repositories_conform() {
    with_spawner(|client| async move {
        let provider = move || Arc::new(provider(client.clone())) as Arc<dyn EnvProvider>;
        let case = swe_case(provider, swe_spec(), Duration::from_secs(20));
        check_provider(case).await.assert_conforms();
    });
}
