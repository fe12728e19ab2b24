//! A sandbox's network, as the harness uses it: the harness can listen there for programs inside, and connect to
//! programs that listen inside. Nothing else of this machine can be reached from there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};

use crate::spawner::{SocketReply, SocketRequest, ask};

/// The network of a sandbox. Clones share it. When the sandbox ends, so do its sockets.
#[derive(Debug, Clone)]
pub struct SandboxNetwork(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// The sandbox's own network. A process inside creates sockets on request over this end of a socket pair.
    Own(Arc<Mutex<OwnedFd>>),
    Host,
}

impl SandboxNetwork {
    pub(crate) fn own(maker: OwnedFd) -> Self {
        Self(Kind::Own(Arc::new(Mutex::new(maker))))
    }

    pub(crate) fn host() -> Self {
        Self(Kind::Host)
    }

    /// Listens on a free port of 127.0.0.1 inside.
    ///
    /// # Errors
    /// The system's error; `NotConnected` when the sandbox has ended.
    pub async fn listen(&self) -> io::Result<(TcpListener, u16)> {
        match &self.0 {
            Kind::Host => {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
                let port = listener.local_addr()?.port();
                Ok((listener, port))
            }
            Kind::Own(maker) => match made(maker, SocketRequest::Listener).await? {
                (SocketReply::Listener(port), socket) => {
                    let listener = std::net::TcpListener::from(socket);
                    listener.set_nonblocking(true)?;
                    Ok((TcpListener::from_std(listener)?, port))
                }
                _ => Err(io::Error::other("expected a listening socket")),
            },
        }
    }

    /// Connects to a port of 127.0.0.1 inside.
    ///
    /// # Errors
    /// The system's error: `ConnectionRefused` if nothing listens; `NotConnected` when the sandbox has ended.
    pub async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let stream = match &self.0 {
            Kind::Host => TcpStream::connect(("127.0.0.1", port)).await?,
            Kind::Own(maker) => {
                let (_, socket) = made(maker, SocketRequest::Stream(port)).await?;
                let stream = std::net::TcpStream::from(socket);
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)?
            }
        };
        // Requests are small, and each waits for its response.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

async fn made(maker: &Arc<Mutex<OwnedFd>>, asked: SocketRequest) -> io::Result<(SocketReply, OwnedFd)> {
    let maker = Arc::clone(maker);
    let made = tokio::task::spawn_blocking(move || {
        // One request and its response at a time.
        let maker = maker.lock().unwrap_or_else(PoisonError::into_inner);
        ask(maker.as_fd(), asked)
    });
    made.await.map_err(io::Error::other)?
}
