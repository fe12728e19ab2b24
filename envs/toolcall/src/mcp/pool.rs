//! Connections that all attempts of a run share.
//!
//! P1. Of many attempts that ask at once, one connects and the others wait for it.
//! P2. The next caller replaces a lost connection.
//!
//! Cancellation: dropping the future of [`McpPool::get`] lets the next waiting caller connect.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{BoxFuture, Fault, McpTransport};

use super::connection::Connection;
use crate::ready_sandbox::SandboxKey;

/// Attempts with equal keys share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) transport: McpTransport,
    /// Sandbox of a program.
    pub(super) sandbox_key: Option<SandboxKey>,
    pub(super) environment: BTreeMap<String, String>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// The shared connections of a provider.
#[derive(Debug, Default)]
pub(crate) struct McpPool {
    slots: Mutex<HashMap<PoolKey, Slot>>,
}

impl McpPool {
    /// The connection, created if there is none alive.
    pub(super) async fn get(
        &self,
        key: PoolKey,
        connect: impl FnOnce() -> BoxFuture<'static, Result<Connection, Fault>>,
    ) -> Result<Arc<Connection>, Fault> {
        let slot = Arc::clone(self.lock().entry(key).or_default());
        let mut held = slot.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        // Callers that still wait for the old one hold it until they are done.
        *held = None;
        let connection = Arc::new(connect().await?);
        *held = Some(Arc::clone(&connection));
        Ok(connection)
    }

    pub(crate) async fn close(&self) {
        let slots: Vec<Slot> = self.lock().drain().map(|(_, slot)| slot).collect();
        let closed = slots.iter().map(|slot| async move {
            if let Some(connection) = slot.lock().await.take() {
                connection.close().await;
            }
        });
        futures_util::future::join_all(closed).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PoolKey, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
