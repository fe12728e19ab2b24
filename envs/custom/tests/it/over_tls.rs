//! A server behind TLS, over HTTP and over WebSockets.
//!
//! Which certificates a process trusts is said by a variable of its environment, so the test runs itself once more with
//! that. `tls/certificate.pem` is of 127.0.0.1 and signed by its own key, which nobody else trusts.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EnvProvider, RewardTotal};
use clawrl_testkit::lease_request;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::over_openenv::{plain, say, server};
use crate::support::{GUESS, bare_provider, begun, ctx, custom_task, guess, http, openenv, serve};

const LIMIT: Duration = Duration::from_secs(5);
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/certificate.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/key.pem");

/// TLS before a server without: its port.
async fn secured(address: &str) -> u16 {
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = address.strip_prefix("http://").unwrap().to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                let mut inner = TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    port
}

#[test]
fn tls_servers_work_and_errors_differ() {
    if std::env::var_os("SSL_CERT_FILE").is_some_and(|file| Path::new(&file) == Path::new(CERTIFICATE)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
        return runtime.unwrap().block_on(of_whoever_trusts_it());
    }
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "over_tls::tls_servers_work_and_errors_differ"])
        .env("SSL_CERT_FILE", CERTIFICATE)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && told.contains("1 passed"), "{told}");
}

async fn of_whoever_trusts_it() {
    let provider = bare_provider();
    let port = secured(&server(plain()).await).await;
    let word = json!({ "word": "stone" });
    let task = custom_task(openenv(&format!("https://127.0.0.1:{port}"), RewardTotal::Sum, word.clone()));
    let (mut env, _) = begun(&provider, &task).await;
    env.step(&[say("stone")], ctx(1, LIMIT)).await.unwrap();
    assert!(env.grade(ctx(2, LIMIT)).await.unwrap().passed);
    env.close().await;

    // Of this name it has no certificate.
    let task = custom_task(openenv(&format!("https://localhost:{port}"), RewardTotal::Sum, word));
    let fault = provider.lease(lease_request(&task)).await.unwrap().reset(ctx(0, LIMIT)).await.unwrap_err();
    assert_eq!(fault.code, "server-unreachable", "{fault}");
    assert!(fault.message.contains("certificate"), "{fault}");

    let (_server, address) = serve(GUESS).await;
    let port = secured(&address).await;
    let task = custom_task(http(&format!("https://127.0.0.1:{port}"), json!({ "secret": 17, "tries": 5 })));
    let (mut env, _) = begun(&provider, &task).await;
    env.step(&[guess(17)], ctx(1, LIMIT)).await.unwrap();
    assert!(env.grade(ctx(2, LIMIT)).await.unwrap().passed);
    env.close().await;
}
