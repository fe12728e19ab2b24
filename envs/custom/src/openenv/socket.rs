//! The WebSocket of a session, read continuously by its own task: pings are answered while a policy thinks, and
//! unexpected messages and disconnects are noticed at once.
//!
//! W1. One message at a time is pending: asking consumes the socket, and returns it with the answer.
//! W2. A message while nothing is pending ends the connection, and the next request reports that.
//! W3. Memory is bounded, whatever the server sends: a message has a limit, of pings only the last is answered, and
//! nothing is kept for later.
//!
//! Owner of the task: [`Socket`]. Dropping it aborts the task, which drops the connection; the server ends its
//! environment with that. [`Socket::close`] says goodbye first.
//!
//! Cancellation: dropping the future of [`Socket::ask`] drops the socket.

use futures_util::{SinkExt, StreamExt};
use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::task::AbortOnDropHandle;

use crate::http::Connection;

/// One: no command is sent before the last answer was received (W1).
const QUEUE: usize = 1;

#[derive(Debug)]
pub(super) struct Socket {
    wanted: mpsc::Sender<SocketCommand>,
    /// Filled by the task before it drops the connection.
    ended: oneshot::Receiver<Disconnected>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum SocketCommand {
    /// Send a message, and pass its answer on.
    Answer {
        message: String,
        to: oneshot::Sender<Bytes>,
    },
    Close(String),
}

#[derive(Debug)]
pub(super) enum Disconnected {
    /// The server closed it, with this frame.
    Closed(Option<CloseFrame>),
    /// An answer came without a pending request.
    Unasked,
    Broken(Error),
}

impl Socket {
    /// Starts to read. Needs a runtime.
    pub(super) fn new(stream: WebSocketStream<Connection>) -> Self {
        let (wanted, mut wishes) = mpsc::channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (mut sink, mut stream) = stream.split();
            let why = keep(&mut sink, &mut stream, &mut wishes).await;
            // The receiver is gone if the session was closed.
            let _ = end.send(why);
        });
        Self { wanted, ended, _task: AbortOnDropHandle::new(task) }
    }

    /// Sends a message and receives its answer.
    ///
    /// # Errors
    /// [`Disconnected`] if there is none; the connection is gone then.
    pub(super) async fn ask(self, message: String) -> Result<(Self, Bytes), Disconnected> {
        let (to, answer) = oneshot::channel();
        // If it cannot be delivered, the sender of the answer is gone as well.
        let _ = self.wanted.send(SocketCommand::Answer { message, to }).await;
        match answer.await {
            Ok(answer) => Ok((self, answer)),
            Err(_) => Err(self.ended.await.unwrap_or(Disconnected::Closed(None))),
        }
    }

    /// Whether an answer without a request has come so far.
    pub(super) fn has_unexpected_answer(&mut self) -> bool {
        matches!(self.ended.try_recv(), Ok(Disconnected::Unasked))
    }

    /// Sends a last message, if possible, and ends the connection.
    pub(super) async fn close(self, message: String) {
        let _ = self.wanted.send(SocketCommand::Close(message)).await;
        let _ = self.ended.await;
    }
}

/// Runs until the connection has ended. The library answers pings while it reads.
async fn keep(
    sink: &mut (impl SinkExt<Message, Error = Error> + Unpin),
    stream: &mut (impl StreamExt<Item = Result<Message, Error>> + Unpin),
    wishes: &mut mpsc::Receiver<SocketCommand>,
) -> Disconnected {
    let mut asker: Option<oneshot::Sender<Bytes>> = None;
    let mut is_unsent = false;
    loop {
        tokio::select! {
            // Received data is processed before a message is sent: it would be taken for the answer.
            biased;
            // While reading, because the server may not read on before that.
            flushed = sink.flush(), if is_unsent => match flushed {
                Ok(()) => is_unsent = false,
                Err(error) => return Disconnected::Broken(error),
            },
            heard = stream.next() => {
                let answer = match heard {
                    Some(Ok(Message::Text(text))) => Bytes::from(text),
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Close(frame))) => {
                        // The library's close reply, without which servers log a broken connection.
                        let _ = sink.flush().await;
                        return Disconnected::Closed(frame);
                    }
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Disconnected::Broken(error),
                    None => return Disconnected::Closed(None),
                };
                match asker.take() {
                    // A caller that has gone away has dropped the socket, and ends this task.
                    Some(to) => drop(to.send(answer)),
                    None => return Disconnected::Unasked,
                }
            },
            wish = wishes.recv(), if asker.is_none() => match wish {
                Some(SocketCommand::Answer { message, to }) => {
                    if let Err(error) = sink.feed(Message::text(message)).await {
                        return Disconnected::Broken(error);
                    }
                    (asker, is_unsent) = (Some(to), true);
                }
                Some(SocketCommand::Close(message)) => {
                    let _ = sink.send(Message::text(message)).await;
                    let _ = sink.close().await;
                    return Disconnected::Closed(None);
                }
                None => return Disconnected::Closed(None),
            },
        }
    }
}
