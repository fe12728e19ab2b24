//! Bodies of requests and responses: a head, and optional data.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use clawrl_core::error_text;
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

pub(crate) type OutgoingBody = UnsyncBoxBody<Bytes, io::Error>;

/// Largest head: it may contain files and program output.
const MAX_HEAD: usize = 1 << 30;

/// Pieces between producer and sender, some tens of kilobytes each.
const QUEUE: usize = 8;

const PIECE: usize = 64 << 10;

pub(crate) fn head(head: &impl Serialize) -> io::Result<OutgoingBody> {
    Ok(Full::new(headed(head)?).map_err(|never| match never {}).boxed_unsync())
}

pub(crate) fn head_and(
    head: &impl Serialize,
    rest: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> io::Result<OutgoingBody> {
    let first = headed(head)?;
    let frames = stream::once(async move { Ok(first) }).chain(rest).map(|piece| piece.map(Frame::data));
    Ok(StreamBody::new(frames).boxed_unsync())
}

/// A head in the middle of a stream, with its data.
pub(crate) fn headed_with(head: &impl Serialize, rest: &[u8]) -> io::Result<Bytes> {
    let mut bytes = BytesMut::from(headed(head)?);
    bytes.extend_from_slice(rest);
    Ok(bytes.freeze())
}

fn headed(head: &impl Serialize) -> io::Result<Bytes> {
    let json = serde_json::to_vec(head).map_err(io::Error::other)?;
    let length = u32::try_from(json.len()).ok().filter(|&length| length as usize <= MAX_HEAD);
    let length = length.ok_or_else(|| io::Error::other("too large for one message"))?;
    let mut bytes = BytesMut::with_capacity(4 + json.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&json);
    Ok(bytes.freeze())
}

#[derive(Debug)]
pub(crate) struct IncomingBody {
    body: Incoming,
    held: BytesMut,
}

impl IncomingBody {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, held: BytesMut::new() }
    }

    /// Reads a head: the first, or one after the previous one's data.
    pub(crate) async fn head<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        self.hold(4).await?;
        let length = self.held.get_u32_le() as usize;
        if length > MAX_HEAD {
            return Err(io::Error::other("too large for one message"));
        }
        self.hold(length).await?;
        serde_json::from_slice(&self.held.split_to(length)).map_err(io::Error::other)
    }

    /// Reads exactly this many bytes after a head.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> io::Result<Bytes> {
        self.hold(bytes).await?;
        Ok(self.held.split_to(bytes).freeze())
    }

    async fn hold(&mut self, bytes: usize) -> io::Result<()> {
        while self.held.len() < bytes {
            let more = self.piece().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.held.extend_from_slice(&more);
        }
        Ok(())
    }

    /// The next bytes after the head. `None`: the body is complete.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.held.is_empty() {
            return self.piece().await;
        }
        Ok(Some(self.held.split().freeze()))
    }

    async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(io::Error::other(error_text(&error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => {}
                },
            }
        }
    }
}

/// A piece of a stream that a separate thread produces.
enum Piece {
    Bytes(Bytes),
    Failed(io::Error),
    Done,
}

/// Where the producing thread writes. A stream whose writer is dropped before [`PieceWriter::finish`] ends with an
/// error, so that a part is never taken for the whole.
pub(crate) struct PieceWriter {
    pieces: mpsc::Sender<Piece>,
    held: BytesMut,
}

pub(crate) struct PieceStream(mpsc::Receiver<Piece>, bool);

pub(crate) fn pieces() -> (PieceWriter, PieceStream) {
    let (pieces, made) = mpsc::channel(QUEUE);
    (PieceWriter { pieces, held: BytesMut::new() }, PieceStream(made, false))
}

impl PieceWriter {
    /// Ends the stream. Blocks.
    pub(crate) fn finish(mut self, made: io::Result<()>) {
        let sent = made.and_then(|()| self.flush());
        let _ = self.pieces.blocking_send(match sent {
            Ok(()) => Piece::Done,
            Err(error) => Piece::Failed(error),
        });
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let piece = Piece::Bytes(self.held.split().freeze());
        self.pieces.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl futures_util::Stream for PieceStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.1 {
            return Poll::Ready(None);
        }
        self.0.poll_recv(context).map(|piece| match piece {
            Some(Piece::Bytes(bytes)) => Some(Ok(bytes)),
            Some(Piece::Done) => None,
            Some(Piece::Failed(error)) => {
                self.1 = true;
                Some(Err(error))
            }
            None => {
                self.1 = true;
                Some(Err(io::Error::other("the stream ended early")))
            }
        })
    }
}

/// Where a thread reads received data.
pub(crate) struct PieceReader {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    held: Bytes,
}

impl PieceReader {
    /// Reads the rest of a body. Call inside a runtime.
    pub(crate) fn of(mut arriving: IncomingBody) -> Self {
        let (made, pieces) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(piece) = arriving.next().await.transpose() {
                let failed = piece.is_err();
                if made.send(piece).await.is_err() || failed {
                    return;
                }
            }
        });
        Self { pieces, held: Bytes::new() }
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.held.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.held = piece?,
            }
        }
        let count = self.held.len().min(buffer.len());
        self.held.split_to(count).copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
