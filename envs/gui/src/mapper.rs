//! Silences the page in which a driver translates `WebDriver` `BiDi` to the browser's own protocol.
//!
//! The page writes every message into its document, which is never visible but which the browser lays out and draws: a
//! considerable part of an episode's cost. Without the element that receives the messages, the page writes nothing.

use std::time::Duration;

use bytes::Bytes;
use clawrl_core::error_text;
use clawrl_sandbox::SandboxNetwork;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::connect::Connector;

/// If the browser does not answer by then, the page stays as it was.
const LIMIT: Duration = Duration::from_secs(5);

/// Enough for a list of one or two pages.
const MAX_BYTES: usize = 1 << 20;

/// Removes the element that receives the messages; returns whether it existed.
const QUIET: &str =
    "(() => { const logs = document.getElementById('logs'); logs?.remove(); return logs !== null; })()";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    #[serde(default)]
    title: String,
    web_socket_debugger_url: Option<String>,
}

/// Silences the page, at the address of the browser's own protocol: `127.0.0.1:40123`.
///
/// # Errors
/// Why the page is unchanged; everything works then as well.
pub(crate) async fn quieten(network: &SandboxNetwork, address: &str) -> Result<(), String> {
    let quietened = tokio::time::timeout(LIMIT, quieten_within(network, address));
    quietened.await.map_err(|_late| format!("no answer within {LIMIT:?}"))?
}

async fn quieten_within(network: &SandboxNetwork, address: &str) -> Result<(), String> {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).ok_or("no port")?;
    let list = format!("http://{address}/json/list").parse().map_err(|error| error_text(&error))?;
    let client = Client::builder(TokioExecutor::new())
        .build::<_, Empty<Bytes>>(Connector { network: network.clone(), port });
    let answer = client.get(list).await.map_err(|error| error_text(&error))?;
    let body =
        Limited::new(answer.into_body(), MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
    let targets: Vec<Target> = serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())?;
    let mapper = targets.into_iter().find(|target| target.title.contains("Mapper"));
    let target = mapper.and_then(|target| target.web_socket_debugger_url).ok_or("there is no such page")?;
    let request = target.into_client_request().map_err(|error| error.to_string())?;
    let stream = network.connect(port).await.map_err(|error| error.to_string())?;
    let (mut socket, _) = client_async(request, stream).await.map_err(|error| error.to_string())?;
    let question = json!({
        "id": 1,
        "method": "Runtime.evaluate",
        "params": { "expression": QUIET, "returnByValue": true },
    });
    socket.send(Message::Text(question.to_string().into())).await.map_err(|error| error.to_string())?;
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message.map_err(|error| error.to_string())? else { continue };
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if answer["id"] != 1 {
            continue;
        }
        return match answer["result"]["result"]["value"].as_bool() {
            Some(true) => Ok(()),
            Some(false) => Err("it does not log messages".to_owned()),
            None => Err(answer.to_string()),
        };
    }
    Err("the connection broke".to_owned())
}
