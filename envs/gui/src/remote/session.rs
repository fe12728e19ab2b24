//! A browser at an endpoint: its connection to this process, and its files.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{Boundary, Fault, error_text};
use clawrl_sandbox::PutFile;
use fantoccini::Client;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use url::{Host, Url};

use super::endpoint::{Endpoint, EndpointCallError, Route};
use super::endpoints::SessionSlot;
use super::sessions::{SessionHandle, Sessions};
use super::zip::archive;
use crate::bidi::{Bidi, BidiError, Event};
use crate::browser::{Browser, BrowserHost, Listening, START_LIMIT, capabilities, not_started};

const PUT_LIMIT: Duration = Duration::from_secs(60);

/// Commands that upload a file: a Grid's and, by its older name, `chromedriver`'s.
const TAKES_FILES: [&str; 2] = ["se/file", "file"];

/// A marker file; downloads are saved beside it, because only the driver knows where uploaded files end up.
const BESIDE: &str = ".clawrl";

#[derive(Debug)]
pub(super) enum SessionError {
    Unreachable(String),
    /// The endpoint answers; this is the result.
    Fault(Fault),
}

/// A session of an endpoint. Dropping it ends it, with the files beside it.
pub(crate) struct Session {
    held: SessionHandle,
    route: Route,
    host: Option<Host>,
    /// Folder for downloads on the browser's machine; `None` if the driver takes no files.
    downloads: Option<String>,
    _slot: SessionSlot,
}

/// Starts a session, within [`START_LIMIT`].
pub(super) async fn begin(
    endpoint: &Arc<Endpoint>,
    host: Option<&Host>,
    sessions: &Arc<Sessions>,
    slot: SessionSlot,
) -> Result<(Browser, mpsc::Receiver<Event>), SessionError> {
    let route = endpoint.route().await.map_err(|error| SessionError::Unreachable(error.to_string()))?;
    let begun = tokio::time::timeout(START_LIMIT, begin_at(endpoint, route, host, sessions, slot)).await;
    begun.unwrap_or_else(|_| {
        Err(SessionError::Fault(not_started(&format!(
            "{endpoint} did not start a session within {START_LIMIT:?}"
        ))))
    })
}

async fn begin_at(
    endpoint: &Arc<Endpoint>,
    route: Route,
    host: Option<&Host>,
    sessions: &Arc<Sessions>,
    slot: SessionSlot,
) -> Result<(Browser, mpsc::Receiver<Event>), SessionError> {
    let failed = |why: String| SessionError::Fault(not_started(&format!("{endpoint}: {why}")));
    let proxy_host = host.map_or_else(|| route.local.to_string(), |host| plain(host).to_string());
    let wanted = json!({ "capabilities": { "alwaysMatch": capabilities(None, &proxy_host) } });
    let begun = sessions.begin(Arc::clone(endpoint), wanted).await;
    let (held, answer) = begun.map_err(|error| match error {
        EndpointCallError::Unreachable(why) => SessionError::Unreachable(why),
        refused @ EndpointCallError::Refused { .. } => failed(refused.to_string()),
    })?;
    let (url, connector) = endpoint.with_user();
    let client = Client::with_existing_session(url.as_str(), &held.id, connector).await;
    let client = client.map_err(|error| failed(error_text(&error)))?;
    // The holder ends the session, and waits for that.
    client.persist().await.map_err(|error| failed(error_text(&error)))?;
    let Some(address) = answer["capabilities"]["webSocketUrl"].as_str() else {
        let message = format!(
            "the sessions of {endpoint} lack WebDriver BiDi, which is required: the driver is too old, or a \
             proxy in front of it blocks WebSockets"
        );
        return Err(SessionError::Fault(Fault::permanent(
            Boundary::Provider,
            "webdriver-without-bidi",
            message,
        )));
    };
    let (bidi, events) = connect_bidi(endpoint, address)
        .await
        .map_err(|why| failed(format!("failed to connect to WebDriver BiDi at {address}: {why}")))?;
    let mut session = Session { held, route, host: host.cloned(), downloads: None, _slot: slot };
    session.downloads = session.find_folder().await.map_err(SessionError::Fault)?;
    let browser = Browser { client, bidi, host: BrowserHost::Endpoint(session) };
    browser.subscribe().await.map_err(SessionError::Fault)?;
    Ok((browser, events))
}

/// The reported address may be valid here or only there: try it here first.
async fn connect_bidi(endpoint: &Endpoint, address: &str) -> Result<(Bidi, mpsc::Receiver<Event>), String> {
    let reported = Url::parse(address).map_err(|error| error.to_string())?;
    let refused = |error: BidiError| error.to_string();
    let here = match endpoint.socket(&reported).await {
        Ok((stream, request)) => Bidi::connect(stream, request).await.map_err(refused),
        Err(error) => Err(error.to_string()),
    };
    let why = match here {
        Ok(talking) => return Ok(talking),
        Err(why) => why,
    };
    match endpoint.socket_at_reported_host(&reported).await {
        Ok((stream, request)) => Bidi::connect(stream, request).await.map_err(refused),
        Err(_) => Err(why),
    }
}

impl Session {
    /// Listens where the browser can reach it.
    pub(crate) async fn listen(&self) -> io::Result<Listening> {
        let listening = listen(&self.route, self.host.as_ref()).await?;
        self.held.keep(listening.listener.as_fd().try_clone_to_owned()?);
        Ok(listening)
    }

    /// Folder for downloads on the browser's machine.
    pub(crate) fn downloads(&self) -> Option<String> {
        self.downloads.clone()
    }

    /// Uploads files; returns their paths on the browser's machine by their paths here.
    pub(crate) async fn put(&self, files: Vec<PutFile>) -> Result<HashMap<String, String>, Fault> {
        let mut laid = HashMap::new();
        for file in files {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            let path = match self.put_one(name, &file.content).await {
                Ok(path) => path,
                Err(EndpointCallError::Unreachable(why)) => {
                    return Err(Fault::transient(Boundary::Env, "browser-lost", why));
                }
                Err(refused @ EndpointCallError::Refused { .. }) => {
                    let endpoint = &self.held.endpoint;
                    let message = format!("{endpoint} did not accept `{}`: {refused}", file.path);
                    return Err(Fault::permanent(Boundary::Env, "remote-upload", message));
                }
            };
            laid.insert(file.path, path);
        }
        Ok(laid)
    }

    /// A folder that ends with the session: that of an uploaded file.
    async fn find_folder(&self) -> Result<Option<String>, Fault> {
        match self.put_one(BESIDE, b"").await {
            Ok(path) => {
                Ok(path.strip_suffix(BESIDE).map(|folder| folder.trim_end_matches(['/', '\\']).to_owned()))
            }
            Err(EndpointCallError::Refused { .. }) => Ok(None),
            Err(EndpointCallError::Unreachable(why)) => Err(not_started(&why)),
        }
    }

    async fn put_one(&self, name: &str, content: &[u8]) -> Result<String, EndpointCallError> {
        let refused = |message: &str| EndpointCallError::Refused {
            error: "no file".to_owned(),
            message: message.to_owned(),
        };
        let archive = archive(name, content).ok_or_else(|| refused("it is too large"))?;
        let body = json!({ "file": STANDARD.encode(archive) });
        let mut answer = Err(refused("no command accepts it"));
        for word in TAKES_FILES {
            let path = format!("session/{}/{word}", self.held.id);
            answer = self.held.endpoint.ask(Method::POST, &path, Some(body.clone()), PUT_LIMIT).await;
            if !matches!(&answer, Err(EndpointCallError::Refused { error, .. }) if error == "unknown command")
            {
                break;
            }
        }
        match answer? {
            Value::String(path) => Ok(path),
            _ => Err(refused("its path was not returned")),
        }
    }
}

/// Listens on a free port that a browser of the endpoint can reach. Peers: the endpoint's addresses; with a configured
/// host, any peer, because the browsers' location is unknown then.
async fn listen(route: &Route, host: Option<&Host>) -> io::Result<Listening> {
    let Some(host) = host else {
        let listener = TcpListener::bind((route.local, 0)).await?;
        let address = listener.local_addr()?.to_string();
        return Ok(Listening { listener, address, peers: Some(route.peers.clone()) });
    };
    // A host that forwards packets to this machine is not one of its addresses.
    let own: [IpAddr; 2] = match *host {
        Host::Ipv4(address) => [address.into(), Ipv4Addr::UNSPECIFIED.into()],
        Host::Ipv6(address) => [address.into(), Ipv6Addr::UNSPECIFIED.into()],
        // What a name resolves to on the other machine is unknown here.
        Host::Domain(_) => [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
    };
    let listener = TcpListener::bind(own.map(|address| SocketAddr::from((address, 0))).as_slice()).await?;
    let address = format!("{host}:{}", listener.local_addr()?.port());
    Ok(Listening { listener, address, peers: None })
}

/// A file in a folder of another machine, which may use another path syntax.
pub(crate) fn beside(folder: &str, name: &str) -> String {
    let separator = if folder.contains('\\') && !folder.contains('/') { '\\' } else { '/' };
    format!("{folder}{separator}{name}")
}

/// In the form used for host rules: without the brackets of addresses.
fn plain(host: &Host) -> String {
    match host {
        Host::Ipv6(address) => address.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listener_address_is_reachable_by_browsers() {
        let route =
            Route { local: Ipv4Addr::LOCALHOST.into(), peers: vec![Ipv4Addr::new(192, 0, 2, 1).into()] };
        let check = async |host: Option<Host>, bound: IpAddr, reported: &str, peers: Option<&[IpAddr]>| {
            let listening = listen(&route, host.as_ref()).await.unwrap();
            let own = listening.listener.local_addr().unwrap();
            assert_eq!(own.ip(), bound, "{host:?}");
            assert_eq!(listening.address, format!("{reported}:{}", own.port()));
            assert_eq!(listening.peers.as_deref(), peers);
        };
        check(None, route.local, "127.0.0.1", Some(&route.peers)).await;
        check(Some(Host::Ipv4(Ipv4Addr::LOCALHOST)), route.local, "127.0.0.1", None).await;
        // Reserved for documentation, so no machine has them.
        let away = Ipv4Addr::new(203, 0, 113, 1);
        check(Some(Host::Ipv4(away)), Ipv4Addr::UNSPECIFIED.into(), "203.0.113.1", None).await;
        let name = Host::Domain("host.docker.internal".to_owned());
        let listening = listen(&route, Some(&name)).await.unwrap();
        assert!(listening.address.starts_with("host.docker.internal:"), "{}", listening.address);
        assert!(listening.listener.local_addr().unwrap().ip().is_unspecified());
    }

    #[test]
    fn paths_are_those_of_the_system_there() {
        assert_eq!(beside("/tmp/upload1", "a.txt"), "/tmp/upload1/a.txt");
        assert_eq!(beside(r"C:\Temp\upload1", "a.txt"), r"C:\Temp\upload1\a.txt");
    }
}
