//! This end: questions to a node.

use std::io;
use std::time::Duration;

use clawrl_core::{Boundary, Determinism, Fault, error_text};
use clawrl_sandbox::{Enclosure, SandboxSpec, StartedSandbox, Terminal};
use futures_util::Stream;
use hyper::Request as HttpRequest;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::body::{Arriving, Outgoing, head, head_and};
use crate::sandbox::NodeSandbox;
use crate::shell::NodeTerminal;
use crate::wire::{Entered, Entry, Request};

/// Bytes under way of one stream, and of all of them: as many as the protocol knows, so that streams which nobody reads
/// hold up no other.
pub(crate) const STREAM_WINDOW: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Answers that nobody waits for any more, remembered until the node has heard of it. What comes of one that was
/// forgotten would count as its mistake.
const MOST_GIVEN_UP: usize = 1 << 16;

/// How long a connection may be silent before it is asked whether it is there, and how long that may take.
const ASK_AFTER: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// What a node is reached over.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

/// A node that answers. Clones share it; the last one dropped ends it.
#[derive(Debug, Clone)]
pub struct Node {
    sender: SendRequest<Outgoing>,
    /// Changes, or is closed, when the connection is over.
    gone: watch::Receiver<()>,
}

impl Node {
    /// Begins to talk. `ended` is dropped when the connection is over.
    ///
    /// # Errors
    /// A transient provider [`Fault`] when nobody answers as a node does.
    pub async fn connect(connection: impl Connection, ended: impl Send + 'static) -> Result<Self, Fault> {
        let shaken = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_reset_streams(MOST_GIVEN_UP)
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
                tracing::debug!(error = error_text(&error), "the connection to a node broke");
            }
            drop((over, ended));
        });
        let node = Self { sender, gone };
        // Nobody has answered yet: HTTP/2 begins without a word from the other side.
        let answered: Result<(), Fault> = node.ask(&Request::Hello).await;
        answered.map_err(|fault| silent(fault.message))?;
        Ok(node)
    }

    /// Whether the connection is over.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) fn gone(&self) -> watch::Receiver<()> {
        self.gone.clone()
    }

    /// Starts the main program of `spec` in a container on the node's machine, as [`clawrl_sandbox::enter`] does on this
    /// one.
    ///
    /// # Errors
    /// As there; a transient provider [`Fault`] when the connection is lost.
    pub async fn enter(
        &self,
        determinism: &Determinism,
        spec: SandboxSpec,
        enclosure: Enclosure,
    ) -> Result<StartedSandbox, Fault> {
        let Enclosure { pid, mark, user, workdir, commons, environment, capabilities, keeper, live } =
            enclosure;
        let bounds = NodeSandbox::bounds(&spec);
        let determinism = determinism.clone();
        let entry = Entry { spec, determinism, pid, mark, user, workdir, commons, environment, capabilities };
        let entered: Result<Result<Entered, Fault>, Fault> = self.ask(&Request::Enter(Box::new(entry))).await;
        let Entered { sandbox, identity } =
            entered.map_err(|fault| Fault { boundary: Boundary::Provider, ..fault })??;
        let terminal = Terminal::Elsewhere(Box::new(NodeTerminal::new(self.clone(), sandbox)));
        let sandbox = NodeSandbox::new(self.clone(), sandbox, identity, bounds, keeper, live);
        Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal })
    }

    /// A question whose answer is a head.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, question: &Request) -> Result<T, Fault> {
        let body = head(question).map_err(|error| unsendable(&error))?;
        let asked = async { self.send(body).await?.head().await };
        asked.await.map_err(|error| self.lost(&error))
    }

    /// One that a stream follows.
    pub(crate) async fn tell<T: DeserializeOwned>(
        &self,
        question: &Request,
        rest: impl Stream<Item = io::Result<bytes::Bytes>> + Send + 'static,
    ) -> Result<T, Fault> {
        let body = head_and(question, rest).map_err(|error| unsendable(&error))?;
        let asked = async { self.send(body).await?.head().await };
        asked.await.map_err(|error| self.lost(&error))
    }

    /// One whose answer is followed by a stream.
    pub(crate) async fn listen<T: DeserializeOwned>(
        &self,
        question: &Request,
    ) -> Result<(T, Arriving), Fault> {
        let body = head(question).map_err(|error| unsendable(&error))?;
        let asked = async {
            let mut arriving = self.send(body).await?;
            Ok::<_, io::Error>((arriving.head().await?, arriving))
        };
        asked.await.map_err(|error| self.lost(&error))
    }

    async fn send(&self, body: Outgoing) -> io::Result<Arriving> {
        let mut sender = self.sender.clone();
        // Only the body says anything.
        let request = HttpRequest::post("http://node/").body(body).map_err(io::Error::other)?;
        sender.ready().await.map_err(in_words)?;
        Ok(Arriving::new(sender.send_request(request).await.map_err(in_words)?.into_body()))
    }

    /// What a broken connection is to whoever waits (N1).
    pub(crate) fn lost(&self, error: &dyn std::fmt::Display) -> Fault {
        let message = format!("the program beside the container engine does not answer: {error}");
        Fault::transient(Boundary::Env, "node-lost", message)
    }
}

/// A question that is larger than one message.
fn unsendable(error: &io::Error) -> Fault {
    Fault::permanent(
        Boundary::Harness,
        "node-message",
        format!("a question to a node cannot be sent: {error}"),
    )
}

fn in_words(error: hyper::Error) -> io::Error {
    io::Error::other(error_text(&error))
}
