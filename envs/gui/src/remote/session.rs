//! A browser of an endpoint, as a place: how it reaches this process, and what lies beside it.

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

use super::endpoint::{AskError, Endpoint, Reach};
use super::endpoints::Seat;
use super::sessions::{Held, Sessions};
use super::zip::archive;
use crate::bidi::{Bidi, BidiError, Event};
use crate::browser::{Browser, Listening, Place, START_LIMIT, capabilities, not_started};

/// A file that has not arrived by then does not.
const PUT_LIMIT: Duration = Duration::from_secs(60);

/// What is asked to take a file: a Grid and, by its older name, `chromedriver`.
const TAKES_FILES: [&str; 2] = ["se/file", "file"];

/// A file beside which downloads are laid: where files come to, nobody but the driver knows.
const BESIDE: &str = ".clawrl";

/// Why an endpoint gave no browser.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Nobody is there.
    Unreachable(String),
    /// Somebody is, and this is what came of it.
    Fault(Fault),
}

/// A session of an endpoint. Dropped, it ends, with whatever was laid beside it.
pub(crate) struct Session {
    held: Held,
    reach: Reach,
    host: Option<Host>,
    /// Where downloads are laid on the browser's machine; `None` where the driver takes no files.
    downloads: Option<String>,
    _seat: Seat,
}

/// Begins a session, within [`START_LIMIT`].
pub(super) async fn begin(
    endpoint: &Arc<Endpoint>,
    host: Option<&Host>,
    sessions: &Arc<Sessions>,
    seat: Seat,
) -> Result<(Browser, mpsc::Receiver<Event>), Refusal> {
    let reach = endpoint.reach().await.map_err(|error| Refusal::Unreachable(error.to_string()))?;
    let begun = tokio::time::timeout(START_LIMIT, begin_at(endpoint, reach, host, sessions, seat)).await;
    begun.unwrap_or_else(|_| {
        Err(Refusal::Fault(not_started(&format!("{endpoint} gave no session within {START_LIMIT:?}"))))
    })
}

async fn begin_at(
    endpoint: &Arc<Endpoint>,
    reach: Reach,
    host: Option<&Host>,
    sessions: &Arc<Sessions>,
    seat: Seat,
) -> Result<(Browser, mpsc::Receiver<Event>), Refusal> {
    let failed = |why: String| Refusal::Fault(not_started(&format!("{endpoint}: {why}")));
    let proxy_host = host.map_or_else(|| reach.local.to_string(), |host| plain(host).to_string());
    let wanted = json!({ "capabilities": { "alwaysMatch": capabilities(None, &proxy_host) } });
    let begun = sessions.begin(Arc::clone(endpoint), wanted).await;
    let (held, answer) = begun.map_err(|error| match error {
        AskError::Unreachable(why) => Refusal::Unreachable(why),
        refused @ AskError::Refused { .. } => failed(refused.to_string()),
    })?;
    let (url, connector) = endpoint.with_user();
    let client = Client::with_existing_session(url.as_str(), &held.id, connector).await;
    let client = client.map_err(|error| failed(error_text(&error)))?;
    // The session is ended by whoever holds it, who also waits for that.
    client.persist().await.map_err(|error| failed(error_text(&error)))?;
    let Some(address) = answer["capabilities"]["webSocketUrl"].as_str() else {
        let message = format!(
            "the sessions of {endpoint} have no WebDriver BiDi, which browsers are moved by; the driver is too old, or what \
             is in front of it lets no WebSockets through"
        );
        return Err(Refusal::Fault(Fault::permanent(Boundary::Provider, "webdriver-without-bidi", message)));
    };
    let (bidi, events) = talk(endpoint, address)
        .await
        .map_err(|why| failed(format!("no WebDriver BiDi at {address}: {why}")))?;
    let mut session = Session { held, reach, host: host.cloned(), downloads: None, _seat: seat };
    session.downloads = session.find_folder().await.map_err(Refusal::Fault)?;
    let browser = Browser { client, bidi, place: Place::Endpoint(session) };
    browser.subscribe().await.map_err(Refusal::Fault)?;
    Ok((browser, events))
}

/// What is told may be right here or there alone: it is tried here first.
async fn talk(endpoint: &Endpoint, address: &str) -> Result<(Bidi, mpsc::Receiver<Event>), String> {
    let told = Url::parse(address).map_err(|error| error.to_string())?;
    let refused = |error: BidiError| error.to_string();
    let here = match endpoint.socket(&told).await {
        Ok((stream, request)) => Bidi::connect(stream, request).await.map_err(refused),
        Err(error) => Err(error.to_string()),
    };
    let why = match here {
        Ok(talking) => return Ok(talking),
        Err(why) => why,
    };
    match endpoint.socket_as_told(&told).await {
        Ok((stream, request)) => Bidi::connect(stream, request).await.map_err(refused),
        Err(_) => Err(why),
    }
}

impl Session {
    /// Listens where the browser can reach it.
    pub(crate) async fn listen(&self) -> io::Result<Listening> {
        let listening = listen(&self.reach, self.host.as_ref()).await?;
        self.held.keep(listening.listener.as_fd().try_clone_to_owned()?);
        Ok(listening)
    }

    /// Where downloads are laid on the browser's machine.
    pub(crate) fn downloads(&self) -> Option<String> {
        self.downloads.clone()
    }

    /// Lays files beside the browser; where each is, by its path here.
    pub(crate) async fn put(&self, files: Vec<PutFile>) -> Result<HashMap<String, String>, Fault> {
        let mut laid = HashMap::new();
        for file in files {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            let path = match self.put_one(name, &file.content).await {
                Ok(path) => path,
                Err(AskError::Unreachable(why)) => {
                    return Err(Fault::transient(Boundary::Env, "browser-lost", why));
                }
                Err(refused @ AskError::Refused { .. }) => {
                    let endpoint = &self.held.endpoint;
                    let message = format!("{endpoint} does not take `{}`: {refused}", file.path);
                    return Err(Fault::permanent(Boundary::Env, "remote-upload", message));
                }
            };
            laid.insert(file.path, path);
        }
        Ok(laid)
    }

    /// A folder that ends with the session: that of a file which is laid there.
    async fn find_folder(&self) -> Result<Option<String>, Fault> {
        match self.put_one(BESIDE, b"").await {
            Ok(path) => {
                Ok(path.strip_suffix(BESIDE).map(|folder| folder.trim_end_matches(['/', '\\']).to_owned()))
            }
            Err(AskError::Refused { .. }) => Ok(None),
            Err(AskError::Unreachable(why)) => Err(not_started(&why)),
        }
    }

    async fn put_one(&self, name: &str, content: &[u8]) -> Result<String, AskError> {
        let refused =
            |message: &str| AskError::Refused { error: "no file".to_owned(), message: message.to_owned() };
        let archive = archive(name, content).ok_or_else(|| refused("it is too large"))?;
        let body = json!({ "file": STANDARD.encode(archive) });
        let mut answer = Err(refused("nobody takes it"));
        for word in TAKES_FILES {
            let path = format!("session/{}/{word}", self.held.id);
            answer = self.held.endpoint.ask(Method::POST, &path, Some(body.clone()), PUT_LIMIT).await;
            if !matches!(&answer, Err(AskError::Refused { error, .. }) if error == "unknown command") {
                break;
            }
        }
        match answer? {
            Value::String(path) => Ok(path),
            _ => Err(refused("nobody says where it is")),
        }
    }
}

/// Listens at a free port where a browser of the endpoint can reach it. Who else may connect: whoever has an address of the
/// endpoint's; with a host that people named, anybody, for nobody knows where browsers are then.
async fn listen(reach: &Reach, host: Option<&Host>) -> io::Result<Listening> {
    let Some(host) = host else {
        let listener = TcpListener::bind((reach.local, 0)).await?;
        let address = listener.local_addr()?.to_string();
        return Ok(Listening { listener, address, peers: Some(reach.peers.clone()) });
    };
    // A host behind which the network sends packets on to here has no address of this machine.
    let own: [IpAddr; 2] = match *host {
        Host::Ipv4(address) => [address.into(), Ipv4Addr::UNSPECIFIED.into()],
        Host::Ipv6(address) => [address.into(), Ipv6Addr::UNSPECIFIED.into()],
        // Where a name leads to from there is not known here.
        Host::Domain(_) => [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
    };
    let listener = TcpListener::bind(own.map(|address| SocketAddr::from((address, 0))).as_slice()).await?;
    let address = format!("{host}:{}", listener.local_addr()?.port());
    Ok(Listening { listener, address, peers: None })
}

/// A file in a folder of another machine, whose system may be another.
pub(crate) fn beside(folder: &str, name: &str) -> String {
    let separator = if folder.contains('\\') && !folder.contains('/') { '\\' } else { '/' };
    format!("{folder}{separator}{name}")
}

/// As rules for hosts have it: without the brackets of addresses.
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
    async fn browsers_are_told_where_this_machine_is() {
        let reach =
            Reach { local: Ipv4Addr::LOCALHOST.into(), peers: vec![Ipv4Addr::new(192, 0, 2, 1).into()] };
        let check = async |host: Option<Host>, bound: IpAddr, told: &str, peers: Option<&[IpAddr]>| {
            let listening = listen(&reach, host.as_ref()).await.unwrap();
            let own = listening.listener.local_addr().unwrap();
            assert_eq!(own.ip(), bound, "{host:?}");
            assert_eq!(listening.address, format!("{told}:{}", own.port()));
            assert_eq!(listening.peers.as_deref(), peers);
        };
        check(None, reach.local, "127.0.0.1", Some(&reach.peers)).await;
        check(Some(Host::Ipv4(Ipv4Addr::LOCALHOST)), reach.local, "127.0.0.1", None).await;
        // Of no machine: addresses for documentation.
        let away = Ipv4Addr::new(203, 0, 113, 1);
        check(Some(Host::Ipv4(away)), Ipv4Addr::UNSPECIFIED.into(), "203.0.113.1", None).await;
        let name = Host::Domain("host.docker.internal".to_owned());
        let listening = listen(&reach, Some(&name)).await.unwrap();
        assert!(listening.address.starts_with("host.docker.internal:"), "{}", listening.address);
        assert!(listening.listener.local_addr().unwrap().ip().is_unspecified());
    }

    #[test]
    fn paths_are_those_of_the_system_there() {
        assert_eq!(beside("/tmp/upload1", "a.txt"), "/tmp/upload1/a.txt");
        assert_eq!(beside(r"C:\Temp\upload1", "a.txt"), r"C:\Temp\upload1\a.txt");
    }
}
