//! Sockets in a sandbox's network: created by a process that joined it, used by the harness.
//!
//! A socket belongs to the network in which it was created, whichever process holds it. So the harness itself can
//! listen in a sandbox, or talk to a program that listens there, without any process in between.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::descriptor;

/// Loopback connections are immediate.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The requested kind of socket.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum SocketRequest {
    /// A socket that listens on a free port of 127.0.0.1.
    Listener,
    /// A socket connected to a port of 127.0.0.1.
    Stream(u16),
}

/// The response. The socket comes beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SocketReply {
    Listener(u16),
    Stream,
    Failed(i32),
}

/// Creates the requested sockets until the other end is closed, or the first process of the sandbox has ended.
pub(super) fn make(socket: BorrowedFd<'_>, first: BorrowedFd<'_>) -> io::Result<()> {
    let mut buffer = Vec::new();
    while !has_ended(socket, first)?
        && let Some((asked, _)) = descriptor::receive::<SocketRequest>(socket, &mut buffer)?
    {
        let sent = match made(asked) {
            Ok((made, fd)) => descriptor::send(socket, &made, &[fd.as_fd()]),
            Err(error) => {
                descriptor::send(socket, &SocketReply::Failed(error.raw_os_error().unwrap_or(libc::EIO)), &[])
            }
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            sent => sent?,
        }
    }
    Ok(())
}

/// Waits for a request, or for the end.
fn has_ended(socket: BorrowedFd<'_>, first: BorrowedFd<'_>) -> io::Result<bool> {
    let mut both =
        [PollFd::from_borrowed_fd(socket, PollFlags::IN), PollFd::from_borrowed_fd(first, PollFlags::IN)];
    loop {
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            polled => {
                polled?;
                return Ok(!both[1].revents().is_empty());
            }
        }
    }
}

fn made(asked: SocketRequest) -> io::Result<(SocketReply, OwnedFd)> {
    match asked {
        SocketRequest::Listener => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            Ok((SocketReply::Listener(port), listener.into()))
        }
        SocketRequest::Stream(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            Ok((SocketReply::Stream, TcpStream::connect_timeout(&address, CONNECT_LIMIT)?.into()))
        }
    }
}

/// Requests a socket. Blocks.
///
/// # Errors
/// `NotConnected` when the creating process is gone.
pub(crate) fn ask(socket: BorrowedFd<'_>, asked: SocketRequest) -> io::Result<(SocketReply, OwnedFd)> {
    let gone = || io::Error::new(io::ErrorKind::NotConnected, "the sandbox is gone");
    match descriptor::send(socket, &asked, &[]) {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            return Err(gone());
        }
        sent => sent?,
    }
    let answer = descriptor::receive::<SocketReply>(socket, &mut Vec::new())?;
    match answer {
        None => Err(gone()),
        Some((SocketReply::Failed(errno), _)) => Err(io::Error::from_raw_os_error(errno)),
        Some((made, fds)) => {
            let fd = fds.into_iter().next().ok_or_else(|| io::Error::other("no socket came"))?;
            Ok((made, fd))
        }
    }
}
