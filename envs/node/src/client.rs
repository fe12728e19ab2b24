//! The client side: requests to a node.

use std::io;
use std::time::Duration;

use clawrl_core::{Boundary, Determinism, Fault, error_text};
use clawrl_sandbox::{RunningContainer, SandboxSpec, StartedSandbox, Terminal};
use futures_util::Stream;
use hyper::Request as HttpRequest;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::body::{IncomingBody, OutgoingBody, head, head_and};
use crate::sandbox::NodeSandbox;
use crate::shell::NodeTerminal;
use crate::wire::{EnterRequest, Entered, Request};

/// Window of one stream, and of all of them together: the protocol's maximum, so that streams that are not read do not
/// block others.
pub(crate) const STREAM_WINDOW: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Cancelled streams that are remembered until the node has noticed. Data of a forgotten one would count as a protocol
/// error.
const MAX_ABANDONED: usize = 1 << 16;

/// Idle time after which a connection is pinged, and time for the reply.
const ASK_AFTER: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// A transport to a node.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

/// A connected node. Clones share it; the last one dropped ends it.
#[derive(Debug, Clone)]
pub struct Node {
    sender: SendRequest<OutgoingBody>,
    /// Changes, or closes, when the connection has ended.
    gone: watch::Receiver<()>,
}

impl Node {
    /// Starts the protocol. `ended` is dropped when the connection has ended.
    ///
    /// # Errors
    /// A transient provider [`Fault`] when the other end does not answer as a node.
    pub async fn connect(connection: impl Connection, ended: impl Send + 'static) -> Result<Self, Fault> {
        let shaken = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_reset_streams(MAX_ABANDONED)
            .max_local_error_reset_streams(None)
            .keep_alive_interval(ASK_AFTER)
            .keep_alive_timeout(ANSWER_LIMIT)
            .handshake(TokioIo::new(connection))
            .await;
        let silent = |said: String| Fault::transient(Boundary::Provider, "node", said);
        let (sender, connection) = shaken.map_err(|error| silent(error_text(&error)))?;
        let (over, gone) = watch::channel(());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = error_text(&error), "lost the connection to a node");
            }
            drop((over, ended));
        });
        let node = Self { sender, gone };
        // No answer has come yet: HTTP/2 starts without a message from the other side.
        let answered: Result<(), Fault> = node.ask(&Request::Hello).await;
        answered.map_err(|fault| silent(fault.message))?;
        Ok(node)
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) fn gone(&self) -> watch::Receiver<()> {
        self.gone.clone()
    }

    /// Starts the main program of `spec` in a container on the node's machine, as [`clawrl_sandbox::enter`] does
    /// locally.
    ///
    /// # Errors
    /// As there; a transient provider [`Fault`] when the connection is lost.
    pub async fn enter(
        &self,
        determinism: &Determinism,
        spec: SandboxSpec,
        enclosure: RunningContainer,
    ) -> Result<StartedSandbox, Fault> {
        let RunningContainer {
            pid,
            mark,
            user,
            workdir,
            commons,
            environment,
            capabilities,
            keep_alive,
            live,
        } = enclosure;
        let bounds = NodeSandbox::bounds(&spec);
        let determinism = determinism.clone();
        let entry =
            EnterRequest { spec, determinism, pid, mark, user, workdir, commons, environment, capabilities };
        let entered: Result<Result<Entered, Fault>, Fault> = self.ask(&Request::Enter(Box::new(entry))).await;
        let Entered { sandbox, identity } =
            entered.map_err(|fault| Fault { boundary: Boundary::Provider, ..fault })??;
        let terminal = Terminal::Remote(Box::new(NodeTerminal::new(self.clone(), sandbox)));
        let sandbox = NodeSandbox::new(self.clone(), sandbox, identity, bounds, keep_alive, live);
        Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal })
    }

    /// A request whose response is a head.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, question: &Request) -> Result<T, Fault> {
        let body = head(question).map_err(|error| unsendable(&error))?;
        let asked = async { self.send(body).await?.head().await };
        asked.await.map_err(|error| self.lost(&error))
    }

    pub(crate) async fn tell<T: DeserializeOwned>(
        &self,
        question: &Request,
        rest: impl Stream<Item = io::Result<bytes::Bytes>> + Send + 'static,
    ) -> Result<T, Fault> {
        let body = head_and(question, rest).map_err(|error| unsendable(&error))?;
        let asked = async { self.send(body).await?.head().await };
        asked.await.map_err(|error| self.lost(&error))
    }

    /// A request whose response is followed by a stream.
    pub(crate) async fn listen<T: DeserializeOwned>(
        &self,
        question: &Request,
    ) -> Result<(T, IncomingBody), Fault> {
        let body = head(question).map_err(|error| unsendable(&error))?;
        let asked = async {
            let mut arriving = self.send(body).await?;
            Ok::<_, io::Error>((arriving.head().await?, arriving))
        };
        asked.await.map_err(|error| self.lost(&error))
    }

    async fn send(&self, body: OutgoingBody) -> io::Result<IncomingBody> {
        let mut sender = self.sender.clone();
        // Only the body matters.
        let request = HttpRequest::post("http://node/").body(body).map_err(io::Error::other)?;
        sender.ready().await.map_err(in_words)?;
        Ok(IncomingBody::new(sender.send_request(request).await.map_err(in_words)?.into_body()))
    }

    /// The fault that waiting callers get for a broken connection (N1).
    pub(crate) fn lost(&self, error: &dyn std::fmt::Display) -> Fault {
        let message = format!("the program beside the container engine does not answer: {error}");
        Fault::transient(Boundary::Env, "node-lost", message)
    }
}

/// A request that is larger than one message.
fn unsendable(error: &io::Error) -> Fault {
    Fault::permanent(
        Boundary::Harness,
        "node-message",
        format!("failed to send a request to a node: {error}"),
    )
}

fn in_words(error: hyper::Error) -> io::Error {
    io::Error::other(error_text(&error))
}
