//! The server: connections, and shutdown.
//!
//! I1. At shutdown, it accepts no new requests, and lets running answers finish within a time limit. I2. A head or body that arrives too
//! slowly ends its connection.
//!
//! Cancellation: [`Server::run`] owns all connections and answers; it returns when they have ended, or at the time limit.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::gateway::Gateway;
use super::router::router;
use super::settings::ServerSettings;
use super::write_timeout::WriteTimeout;
use crate::recorder::RecorderHandle;
use crate::{Backend, Keys, Trainer};

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    gateway: Arc<Gateway>,
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Answers that were cut at the time limit.
    pub cut: usize,
}

impl Server {
    /// A server on this listener.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn new(
        listener: TcpListener,
        settings: ServerSettings,
        keys: Keys,
        backend: Arc<dyn Backend>,
        recorder: RecorderHandle,
    ) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let gateway = Arc::new(Gateway::new(port, settings, keys, backend, recorder));
        Ok(Self { listener, gateway })
    }

    /// Adds a trainer.
    #[must_use]
    pub fn with_trainer(mut self, trainer: Arc<dyn Trainer>) -> Self {
        // Not shared before it runs.
        if let Some(gateway) = Arc::get_mut(&mut self.gateway) {
            gateway.trainer = Some(trainer);
        }
        self
    }

    /// Sets the reason why there is no trainer.
    #[must_use]
    pub fn without_trainer(mut self, why: &str) -> Self {
        // Not shared before it runs.
        if let Some(gateway) = Arc::get_mut(&mut self.gateway) {
            why.clone_into(&mut gateway.why_no_trainer);
        }
        self
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` is ready, then shuts down.
    pub async fn run(self, end: impl Future<Output = ()>) -> Drained {
        let Self { listener, gateway } = self;
        let router = router(&gateway);
        let places = Arc::new(Semaphore::new(gateway.settings.connections));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        tokio::pin!(end);
        loop {
            let accept = async {
                // The semaphore is never closed.
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { pending().await };
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                biased;
                () = &mut end => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept => accepted,
            };
            let stream: TcpStream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Most likely there are no file descriptors: another connection must end first.
                    tracing::warn!("failed to accept a connection: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await; // timer: back-off
                    continue;
                }
            };
            // Pieces of an answer are small, and must arrive at once.
            let _ = stream.set_nodelay(true);
            let service = TowerToHyperService::new(router.clone());
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(gateway.settings.head_time)
                .serve_connection(TokioIo::new(WriteTimeout::new(stream, gateway.settings.stall)), service);
            let connection = graceful.watch(connection);
            connections.spawn(async move {
                // A broken connection concerns only its client.
                let _ = connection.await;
                drop(place);
            });
        }
        drop(listener);
        gateway.ending.cancel();
        gateway.is_draining.store(true, Ordering::Relaxed);
        gateway.answers.close();
        let drained = async {
            gateway.answers.wait().await;
            graceful.shutdown().await;
        };
        let is_drained = timeout(gateway.settings.drain, drained).await.is_ok();
        let cut = if is_drained { 0 } else { gateway.answer_limit.in_use() };
        // Answers whose client is gone end, and are recorded as failed.
        connections.shutdown().await;
        gateway.answers.wait().await;
        Drained { cut }
    }
}
