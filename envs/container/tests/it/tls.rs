//! TLS before an engine's socket, as `dockerd --tlsverify` has it: both sides show certificates. Those in `tls/` are signed
//! by a key that is not kept, for 127.0.0.1.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_container::EngineAccess;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A TLS listener. Dropping it closes it.
pub(crate) struct Tls {
    port: u16,
    cut: watch::Sender<u32>,
}

impl Tls {
    pub(crate) async fn before(socket: &str) -> Self {
        let authority = CertificateDer::from_pem_file(file("of-client/ca.pem")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority).unwrap();
        let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("server-key.pem")).unwrap();
        let config = ServerConfig::builder()
            .with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
            .with_single_cert(vec![certificate], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = socket.strip_prefix("unix://").unwrap().to_owned();
        let (cut, mut cuts) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    cut = cuts.changed() => if cut.is_ok() { continue } else { return },
                };
                let Ok((stream, _)) = accepted else { return };
                let (acceptor, behind, mut cut) = (acceptor.clone(), behind.clone(), cuts.clone());
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(stream).await else { return };
                    let Ok(mut inner) = UnixStream::connect(behind).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut outer, &mut inner) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { port, cut }
    }

    pub(crate) fn access(&self) -> EngineAccess {
        EngineAccess {
            addresses: format!("tcp://127.0.0.1:{}", self.port),
            certificates: Some(file("of-client")),
        }
    }

    /// Breaks every connection; new ones are taken.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}
