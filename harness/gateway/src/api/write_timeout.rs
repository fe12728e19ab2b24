//! A connection with a write timeout.
//!
//! I1. A write without progress for the time limit is an error, which ends the connection and releases what it was to send: an answer, an
//! export, or answers to pipelined requests that are never read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Reading is unchanged: heads and bodies have their own limits.
pub(super) struct WriteTimeout<S> {
    stream: S,
    stall: Duration,
    /// The running timeout, while a write waits.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, stall: Duration) -> Self {
        Self { stream, stall, timeout: None }
    }

    fn with_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.timeout = None;
            return poll;
        }
        let stall = self.stall;
        let timeout = self.timeout.get_or_insert_with(|| Box::pin(sleep(stall))); // timer: a limit
        ready!(timeout.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_timeout(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.with_timeout(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        self.with_timeout(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        self.with_timeout(context, poll)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// On a paused clock that advances only for timers.
    #[tokio::test(start_paused = true)]
    async fn write_times_out_without_progress() {
        let (near, mut far) = duplex(4);
        let mut stream = WriteTimeout::new(near, Duration::from_secs(10));
        stream.write_all(b"four").await.unwrap();
        let (written, read) = tokio::join!(stream.write_all(b"more"), async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            let mut bytes = [0; 4];
            far.read_exact(&mut bytes).await.unwrap();
            bytes
        });
        written.unwrap();
        assert_eq!(&read, b"four");
        // The timeout restarts with each write that makes progress.
        let started = tokio::time::Instant::now();
        let error = stream.write_all(b"last").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 10);
    }
}
