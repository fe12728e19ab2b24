//! Sockets of the harness in a sandbox's own network.

use std::time::Duration;

use clawrl_sandbox::{SandboxBackend as _, SandboxSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{as_normal_user_too, bash, start, waiting, with_backend};

#[test]
fn harness_listener_inside_is_private() {
    as_normal_user_too("network::harness_listener_inside_is_private", || {
        with_backend("network", |backend| async move {
            let (one, other) = (start(&backend, "one").await, start(&backend, "other").await);
            let network = one.sandbox.network().await.unwrap();
            let (listener, port) = network.listen().await.unwrap();
            let said = async {
                let mut stream = listener.accept().await.unwrap().0;
                let mut line = [0; 4];
                stream.read_exact(&mut line).await.unwrap();
                stream.write_all(b"pong").await.unwrap();
                line
            };
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf ping >&3; cat <&3");
            let (line, answer) = tokio::join!(said, bash(one.sandbox.as_ref(), &script));
            assert_eq!((&line, answer.as_str()), (b"ping", "pong"));
            // Neither this machine nor another sandbox has that port; another one's network is another.
            assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err());
            let script = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo refused");
            assert_eq!(bash(other.sandbox.as_ref(), &script).await, "refused\n");
            let others = other.sandbox.network().await.unwrap();
            let refused = others.connect(port).await.unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            // Both ways.
            let (ours, theirs) = tokio::join!(network.connect(port), listener.accept());
            let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap().0);
            ours.write_all(b"over").await.unwrap();
            let mut line = [0; 4];
            theirs.read_exact(&mut line).await.unwrap();
            assert_eq!(&line, b"over");
            one.sandbox.kill().await.unwrap();
            let limit = Duration::from_secs(10);
            let gone = tokio::time::timeout(limit, async {
                // The kernel ends the network after its last process; the process that creates sockets is one.
                while network.connect(1).await.unwrap_err().kind() != std::io::ErrorKind::NotConnected {}
            });
            assert!(gone.await.is_ok());
        });
    });
}

#[test]
fn inner_sandboxes_need_permission() {
    with_backend("inner", |backend| async move {
        let script = "unshare -Ur true 2>/dev/null && echo made; unshare -Urm true 2>/dev/null && echo mounted; echo done";
        let plain = start(&backend, "plain").await;
        assert_eq!(bash(plain.sandbox.as_ref(), script).await, "done\n");
        let spec = SandboxSpec { inner_sandbox: true, ..waiting("browser") };
        let wanted = backend.start(spec).await.unwrap();
        // `unshare` itself creates a mount namespace by a call that cannot be distinguished from others; it mounts
        // nothing there.
        let found = bash(wanted.sandbox.as_ref(), "unshare -Ur true && echo made; unshare -Urm mount -t tmpfs x /tmp 2>/dev/null && echo mounted; echo done").await;
        assert_eq!(found, "made\ndone\n");
    });
}
