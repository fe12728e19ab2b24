//! Connections of the WebDriver client to the driver in a sandbox's own network.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use clawrl_sandbox::SandboxNetwork;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// Connects to one port, whatever address is requested.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) network: SandboxNetwork,
    pub(crate) port: u16,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { network, port } = self.clone();
        Box::pin(async move { network.connect(port).await.map(TokioIo::new) })
    }
}
