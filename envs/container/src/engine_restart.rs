//! Waits for container engines that restart, update or crash.

use std::time::Duration;

use futures_util::future::join_all;

use crate::engines::Engines;

/// How long a restart is awaited. Attempts whose containers ended with the engine are started again; without the wait,
/// each would use up its retries in the moment in which nothing listens.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);

/// How often they are asked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Whether an engine was unreachable, and one is reachable now or again in time.
pub(crate) async fn ended(engines: &Engines) -> bool {
    let answering = || async {
        let pings = join_all(engines.iter().map(|engine| engine.docker.ping())).await;
        (pings.iter().filter(|ping| ping.is_ok()).count(), pings.len())
    };
    match answering().await {
        (there, all) if there == all => return false,
        (1.., _) => return true,
        _ => {}
    }
    tracing::warn!("no container engine answers; retrying for up to {RESTART_TIMEOUT:?}");
    let back = async {
        while answering().await.0 == 0 {
            // timer: no event reports that an engine listens again.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(RESTART_TIMEOUT, back).await.is_ok()
}
