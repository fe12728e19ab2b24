//! A registry on this machine, with images of one layer: enough of the protocol for an engine to fetch them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Content by path, with its type.
type Pages = HashMap<String, (&'static str, Arc<[u8]>)>;

/// Served until the runtime ends.
pub(crate) struct Registry {
    address: String,
    pages: Arc<Mutex<Pages>>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let pages =
            Arc::new(Mutex::new(Pages::from([("/v2/".to_owned(), ("application/json", b"{}"[..].into()))])));
        let served = Arc::clone(&pages);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { address, pages }
    }

    /// Offers an image, and returns the name that it is fetched by.
    pub(crate) fn offer(&self, name: &str, layer: Vec<u8>) -> String {
        let layer_digest = digest(&layer);
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": { "WorkingDir": "/app" },
            "rootfs": { "type": "layers", "diff_ids": [layer_digest] },
        });
        let config = config.to_string().into_bytes();
        let part = |media: &str, bytes: &[u8]| json!({ "mediaType": media, "size": bytes.len(), "digest": digest(bytes) });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": part("application/vnd.docker.container.image.v1+json", &config),
            "layers": [part("application/vnd.docker.image.rootfs.diff.tar", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let mut pages = self.pages.lock().unwrap();
        for blob in [config, layer] {
            pages.insert(
                format!("/v2/{name}/blobs/{}", digest(&blob)),
                ("application/octet-stream", blob.into()),
            );
        }
        for reference in ["1".to_owned(), digest(&manifest)] {
            pages.insert(format!("/v2/{name}/manifests/{reference}"), (MANIFEST, manifest.clone().into()));
        }
        format!("{}/{name}:1", self.address)
    }
}

fn digest(bytes: &[u8]) -> String {
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash}")
}

async fn serve(mut stream: TcpStream, pages: Arc<Mutex<Pages>>) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let Ok(Some(request)) = lines.next_line().await else { return };
    while lines.next_line().await.is_ok_and(|line| line.is_some_and(|line| !line.is_empty())) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let found = pages.lock().unwrap().get(path).cloned();
    let (status, (media, body)) = match found {
        Some(page) => ("200 OK", page),
        None => ("404 Not Found", ("application/json", b"{}"[..].into())),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\nDocker-Content-Digest: {}\r\n\
         Docker-Distribution-Api-Version: registry/2.0\r\nConnection: close\r\n\r\n",
        body.len(),
        digest(&body)
    );
    let _ = write.write_all(head.as_bytes()).await;
    if method != "HEAD" {
        let _ = write.write_all(&body).await;
    }
}
