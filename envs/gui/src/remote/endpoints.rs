//! Several endpoints, and the choice of the next one.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clawrl_core::{Boundary, Fault, Retry};
use futures_util::future::join_all;
use http::Method;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use url::Host;

use super::endpoint::{Endpoint, EndpointError};
use super::session::{SessionError, begin};
use super::sessions::Sessions;
use crate::bidi::Event;
use crate::browser::Browser;

/// An endpoint that failed is chosen last for this time.
const REST: Duration = Duration::from_secs(10);

/// Time for an endpoint to report its status.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// Remote browser endpoints, and the address under which they reach this machine.
pub struct Endpoints {
    all: Vec<Arc<Endpoint>>,
    /// Host under which browsers reach this machine, if the network route does not determine it.
    host: Option<Host>,
    places: Mutex<Vec<EndpointState>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct EndpointState {
    sessions: u32,
    /// Chosen last until then.
    rests_until: Option<Instant>,
}

/// Status report of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Its address, without user info.
    pub address: String,
    /// Its version and readiness, or why they are unknown.
    pub said: Result<String, String>,
}

impl Endpoints {
    /// Parses endpoint addresses separated by white space or commas; `host` is the name or address under which browsers
    /// reach this machine.
    ///
    /// # Errors
    /// [`EndpointError`], which names the invalid address.
    pub fn parse(addresses: &str, host: Option<&str>) -> Result<Self, EndpointError> {
        let named = addresses.split(|c: char| c == ',' || c.is_whitespace()).filter(|text| !text.is_empty());
        let all: Vec<_> = named.map(|text| Endpoint::parse(text).map(Arc::new)).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(EndpointError::None);
        }
        let host = host.map(str::trim).filter(|text| !text.is_empty()).map(host_of).transpose()?;
        let places = Mutex::new(vec![EndpointState::default(); all.len()]);
        Ok(Self { all, host, places })
    }

    /// Asks every endpoint for its status.
    pub async fn probe(&self) -> Vec<EndpointStatus> {
        join_all(self.all.iter().map(async |endpoint| {
            let asked = endpoint.ask(Method::GET, "status", None, STATUS_LIMIT).await;
            let said = asked.map(|value| told(&value)).map_err(|error| error.to_string());
            EndpointStatus { address: endpoint.to_string(), said }
        }))
        .await
    }

    /// Starts a browser at the next endpoint that provides one.
    ///
    /// # Errors
    /// A provider [`Fault`]: `webdriver-unreachable` when none answers, otherwise the last one's error.
    pub(crate) async fn start(
        self: &Arc<Self>,
        sessions: &Arc<Sessions>,
    ) -> Result<(Browser, mpsc::Receiver<Event>), Fault> {
        let (mut tried, mut unreachable, mut refused) = (HashSet::new(), Vec::new(), None);
        while let Some(slot) = self.take_slot(&tried) {
            let (at, endpoint) = (slot.at, Arc::clone(&self.all[slot.at]));
            tried.insert(at);
            let refusal = match begin(&endpoint, self.host.as_ref(), sessions, slot).await {
                Ok(begun) => {
                    self.places()[at].rests_until = None;
                    return Ok(begun);
                }
                Err(refusal) => refusal,
            };
            self.places()[at].rests_until = Some(Instant::now() + REST);
            match refusal {
                SessionError::Unreachable(why) => unreachable.push(format!("{endpoint}: {why}")),
                // Prefer the temporary one of two errors.
                SessionError::Fault(fault) if refused.as_ref().is_none_or(is_lasting) => {
                    refused = Some(fault)
                }
                SessionError::Fault(_) => {}
            }
        }
        // While an endpoint is missing, no error is permanent.
        Err(refused.filter(|fault| unreachable.is_empty() || !is_lasting(fault)).unwrap_or_else(|| {
            let message = format!("no WebDriver endpoint provides a browser; {}", unreachable.join("; "));
            Fault::transient(Boundary::Provider, "webdriver-unreachable", message)
        }))
    }

    /// Reserves a slot at the endpoint to be asked next.
    fn take_slot(self: &Arc<Self>, tried: &HashSet<usize>) -> Option<SessionSlot> {
        let mut places = self.places();
        let now = Instant::now();
        let left = (0..places.len()).filter(|at| !tried.contains(at));
        let at = left.min_by_key(|&at| {
            let rests = places[at].rests_until.is_some_and(|until| now < until);
            (rests, places[at].sessions)
        })?;
        places[at].sessions += 1;
        Some(SessionSlot { endpoints: Arc::clone(self), at })
    }

    fn places(&self) -> MutexGuard<'_, Vec<EndpointState>> {
        // Each change is one assignment.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoints({self})")
    }
}

/// One session's slot at an endpoint. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct SessionSlot {
    endpoints: Arc<Endpoints>,
    at: usize,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut places = self.endpoints.places();
        places[self.at].sessions = places[self.at].sessions.saturating_sub(1);
    }
}

fn is_lasting(fault: &Fault) -> bool {
    fault.retry == Retry::Never
}

fn host_of(text: &str) -> Result<Host, EndpointError> {
    let host = match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => Some(Host::Ipv4(address)),
        Ok(IpAddr::V6(address)) => Some(Host::Ipv6(address)),
        Err(_) => Host::parse(text).ok(),
    };
    host.ok_or_else(|| EndpointError::NoHost(text.to_owned()))
}

/// Summarises a status answer: of a driver, or of a Grid, whose nodes have versions.
fn told(status: &Value) -> String {
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut versions = vec![&status["build"]["version"]];
    versions.extend(nodes.iter().map(|node| &node["version"]));
    let mut versions: Vec<&str> = versions.into_iter().filter_map(Value::as_str).collect();
    versions.dedup();
    // The revision follows the number.
    let versions: Vec<&str> =
        versions.into_iter().filter_map(|text| text.split_whitespace().next()).collect();
    let ready = if status["ready"].as_bool() == Some(true) { "ready" } else { "not ready" };
    let message = status["message"].as_str().unwrap_or_default();
    let slots: usize = nodes.iter().map(|node| node["slots"].as_array().map_or(0, Vec::len)).sum();
    let slots = if nodes.is_empty() { String::new() } else { format!(", sessions at once: {slots}") };
    let versions = if versions.is_empty() { "unknown version".to_owned() } else { versions.join(", ") };
    format!("{versions}, {ready}{slots}: {message}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;

    use super::*;

    fn endpoints(addresses: &str) -> Arc<Endpoints> {
        Arc::new(Endpoints::parse(addresses, None).unwrap())
    }

    #[test]
    fn endpoints_are_named_with_commas_or_white_space() {
        let check = |text: &str, expected: &str| assert_eq!(endpoints(text).to_string(), expected, "{text}");
        check("http://a:1", "http://a:1/");
        check(
            "http://a:1,http://b:2 \n, http://c:3/grid\thttp://d,",
            "http://a:1/, http://b:2/, http://c:3/grid/, http://d/",
        );
        let refused = |text: &str| Endpoints::parse(text, None).unwrap_err();
        assert_eq!(refused(" , "), EndpointError::None);
        let second = refused("http://a:1, b:2").to_string();
        assert!(second.starts_with("`b:2` is not the address of a WebDriver endpoint"), "{second}");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let check = |text: &str, expected: &str| assert_eq!(host_of(text).unwrap().to_string(), expected);
        check("host.docker.internal", "host.docker.internal");
        check("172.17.0.1", "172.17.0.1");
        check("::1", "[::1]");
        check("[::1]", "[::1]");
        for text in ["a b", "http://a", "a:1"] {
            assert_eq!(host_of(text), Err(EndpointError::NoHost(text.to_owned())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn n2_least_loaded_first_failed_last() {
        let endpoints = endpoints("http://a http://b http://c");
        let none = HashSet::new();
        let slots: Vec<SessionSlot> = (0..4).map(|_| endpoints.take_slot(&none).unwrap()).collect();
        assert_eq!(slots.iter().map(|slot| slot.at).collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert_eq!(endpoints.take_slot(&HashSet::from([1])).unwrap().at, 2, "which is tried instead");
        let mut slots = slots;
        drop(slots.remove(2));
        assert_eq!(endpoints.take_slot(&none).unwrap().at, 2, "a place that is free again");
        endpoints.places()[2].rests_until = Some(Instant::now() + REST);
        assert_eq!(endpoints.take_slot(&none).unwrap().at, 1, "it failed");
        assert_eq!(endpoints.take_slot(&HashSet::from([0, 1])).unwrap().at, 2, "better than none");
        tokio::time::advance(REST).await;
        assert_eq!(endpoints.take_slot(&none).unwrap().at, 2, "it is tried again");
        assert!(endpoints.take_slot(&HashSet::from([0, 1, 2])).is_none());
    }

    #[tokio::test]
    async fn unreachable_is_transient_without_user_info() {
        // Ports that are free again.
        let ports = [(); 2].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        });
        let [one, other] = ports;
        let endpoints = endpoints(&format!("http://ada:secret@127.0.0.1:{one} http://127.0.0.1:{other}"));
        let sessions = Arc::<Sessions>::default();
        let fault = endpoints.start(&sessions).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.boundary), ("webdriver-unreachable", Boundary::Provider));
        assert_eq!(fault.retry, Retry::Sound);
        for part in [format!("http://127.0.0.1:{one}/: "), format!("http://127.0.0.1:{other}/: ")] {
            assert!(fault.message.contains(&part), "{fault}");
        }
        assert!(!fault.message.contains("secret"), "{fault}");
        assert!(endpoints.places().iter().all(|place| place.sessions == 0));
        assert_eq!(sessions.end_all().await, Vec::<String>::new());
        let answers = endpoints.probe().await;
        assert!(answers.iter().all(|answer| answer.said.is_err()), "{answers:?}");
    }

    /// A fake endpoint that records its requests and their senders. It answers session requests on command.
    async fn fake(capabilities: Value) -> (String, mpsc::UnboundedReceiver<String>, Arc<Notify>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let go_on = Arc::new(Notify::new());
        let waiting = Arc::clone(&go_on);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tell, capabilities, go_on) = (tell.clone(), capabilities.clone(), Arc::clone(&waiting));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let (mut head, mut length) = (String::new(), 0);
                    while !head.ends_with("\r\n\r\n") {
                        let begin = head.len();
                        if stream.read_line(&mut head).await.unwrap() == 0 {
                            // A readiness probe.
                            return;
                        }
                        if let Some(value) =
                            head[begin..].to_ascii_lowercase().strip_prefix("content-length:")
                        {
                            length = value.trim().parse().unwrap();
                        }
                    }
                    stream.read_exact(&mut vec![0; length]).await.unwrap();
                    let line = head.lines().next().unwrap_or_default();
                    let user =
                        head.lines().find(|line| line.starts_with("authorization: ")).unwrap_or_default();
                    tell.send(format!("{line} {user}")).unwrap();
                    let value = if line.starts_with("POST") {
                        go_on.notified().await;
                        json!({ "sessionId": "1", "capabilities": capabilities })
                    } else {
                        Value::Null
                    };
                    let body = json!({ "value": value }).to_string();
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        (format!("http://ada:secret@{address}"), told, go_on)
    }

    const BEGUN: &str = "POST /session HTTP/1.1 authorization: Basic YWRhOnNlY3JldA==";
    const ENDED: &str = "DELETE /session/1 HTTP/1.1 authorization: Basic YWRhOnNlY3JldA==";

    #[tokio::test]
    async fn old_driver_is_permanent_fault_without_session() {
        let (url, mut asked, go_on) = fake(json!({ "webSocketUrl": true })).await;
        go_on.notify_one();
        let sessions = Arc::<Sessions>::default();
        let fault = endpoints(&url).start(&sessions).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.retry), ("webdriver-without-bidi", Retry::Never), "{fault}");
        assert!(!fault.message.contains("secret"), "{fault}");
        assert_eq!([asked.recv().await.unwrap(), asked.recv().await.unwrap()], [BEGUN, ENDED]);
        assert_eq!(sessions.end_all().await, Vec::<String>::new());
        // It is not the last word while another endpoint may come back.
        go_on.notify_one();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let fault = endpoints(&format!("http://{silent} {url}")).start(&sessions).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.retry), ("webdriver-unreachable", Retry::Sound), "{fault}");
    }

    #[tokio::test]
    async fn n3_late_session_is_ended_and_awaited() {
        let (url, mut asked, go_on) = fake(json!({})).await;
        let (endpoints, sessions) = (endpoints(&url), Arc::<Sessions>::default());
        let starting = {
            let (endpoints, sessions) = (Arc::clone(&endpoints), Arc::clone(&sessions));
            tokio::spawn(async move { endpoints.start(&sessions).await.map(drop) })
        };
        assert_eq!(asked.recv().await.unwrap(), BEGUN);
        starting.abort();
        assert!(starting.await.is_err());
        assert_eq!(endpoints.places()[0].sessions, 0, "its place is free");
        let ending = tokio::spawn(async move { sessions.end_all().await });
        go_on.notify_one();
        assert_eq!(ending.await.unwrap(), Vec::<String>::new());
        assert_eq!(asked.recv().await.unwrap(), ENDED);
    }

    #[test]
    fn driver_and_grid_status_is_summarised() {
        let driver = json!({ "build": { "version": "148.0.7778.167 (65db666)" }, "message": "ChromeDriver ready.", "ready": true });
        assert_eq!(told(&driver), "148.0.7778.167, ready: ChromeDriver ready.");
        let node = json!({ "version": "4.20.0 (revision 866c76ca80)", "slots": [{}, {}] });
        let grid = json!({ "ready": false, "message": "Selenium Grid not ready.", "nodes": [node, node] });
        assert_eq!(told(&grid), "4.20.0, not ready, sessions at once: 4: Selenium Grid not ready.");
    }
}
