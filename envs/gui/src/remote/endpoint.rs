//! The address of one WebDriver endpoint.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clawrl_core::error_text;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::{TcpStream, lookup_host};
use tower_service::Service;
use url::Url;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Largest answer: a Grid's list of its nodes.
const MAX_BYTES: usize = 16 << 20;

/// Why a text does not name endpoints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is empty, or white space and commas.
    #[error("no address given")]
    None,
    /// One of its addresses is invalid.
    #[error("`{shown}` is not the address of a WebDriver endpoint: {why}")]
    NoAddress {
        /// The address, without its user info.
        shown: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host under which browsers should reach this machine is invalid.
    #[error("`{0}` is not a host name or address")]
    NoHost(String),
    /// The machine's certificates cannot be read.
    #[error("https:// needs the certificates of this machine: {0}")]
    NoCertificates(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointCallError {
    /// Unreachable, or not speaking the protocol.
    #[error("{0}")]
    Unreachable(String),
    #[error("{error}: {message}")]
    Refused {
        /// The protocol's error code, such as `session not created`.
        error: String,
        /// The first line of its explanation.
        message: String,
    },
}

/// An address, and how to connect to it.
pub(super) struct Endpoint {
    /// Ends with a slash, and has no user info.
    url: Url,
    /// The user info, in the form of the classic client.
    user: Option<(String, String)>,
    connector: Connector,
    client: Client<Connector, Full<Bytes>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// This machine's address on that route.
    pub(super) local: IpAddr,
    pub(super) peers: Vec<IpAddr>,
}

/// A connection for any protocol.
pub(super) type Connection = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Self, EndpointError> {
        let refused = |why: &str| {
            // Everything in front of an `@` may be a password.
            let shown = match (text.split_once("://"), text.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
                (None, Some((_, rest))) => rest.to_owned(),
                (_, None) => text.to_owned(),
            };
            EndpointError::NoAddress { shown, why: why.to_owned() }
        };
        let mut url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it begins with neither http:// nor https://"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("it has a query or a fragment"));
        }
        let user = match (url.username(), url.password()) {
            ("", None) => None,
            (name, password) => Some((name.to_owned(), password.unwrap_or_default().to_owned())),
        };
        // The client of the classic commands sends them unchanged.
        if user.iter().any(|(name, password)| name.contains('%') || password.contains('%')) {
            return Err(refused("its user info has characters that an address cannot have"));
        }
        // Only an address without a host refuses these, and HTTP addresses have one.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let connector = Connector::new(url.scheme() == "https")?;
        // The caller may run in a different runtime each time: connections are not kept.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector.clone());
        Ok(Self { url, user, connector, client })
    }

    /// For the client of the classic commands, which expects the user info in the address.
    pub(super) fn with_user(&self) -> (Url, Connector) {
        let mut url = self.url.clone();
        if let Some((name, password)) = &self.user {
            let _ = url.set_username(name);
            let _ = url.set_password(Some(password));
        }
        (url, self.connector.clone())
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let (name, password) = self.user.as_ref()?;
        let mut value =
            HeaderValue::try_from(format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Sends a request, and waits for the value of the answer, up to the limit.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        limit: Duration,
    ) -> Result<Value, EndpointCallError> {
        let asked = tokio::time::timeout(limit, self.answered(method, path, body)).await;
        asked.unwrap_or_else(|_| Err(EndpointCallError::Unreachable(format!("no answer within {limit:?}"))))
    }

    async fn answered(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, EndpointCallError> {
        let unreachable = |why: String| EndpointCallError::Unreachable(why);
        let url = self.url.join(path).map_err(|error| unreachable(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(url.as_str());
        if let Some(authorization) = self.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json; charset=utf-8");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|error| unreachable(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| unreachable(error_text(&error)))?;
        let status = answer.status();
        let read = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        let bytes = read.map_err(|error| unreachable(error_text(error.as_ref())))?.to_bytes();
        let foreign = || EndpointCallError::Refused {
            error: "no WebDriver".to_owned(),
            message: format!("unexpected answer with status {status}"),
        };
        let mut answer: Value = serde_json::from_slice(&bytes).map_err(|_| foreign())?;
        let mut value = answer.get_mut("value").map(Value::take).ok_or_else(foreign)?;
        if status.is_success() {
            return Ok(value);
        }
        match (value["error"].take(), value["message"].as_str()) {
            (Value::String(error), Some(message)) => {
                let message = message.lines().next().unwrap_or_default().to_owned();
                Err(EndpointCallError::Refused { error, message })
            }
            _ => Err(foreign()),
        }
    }

    /// Finds the network route.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn route(&self) -> io::Result<Route> {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.url.port_or_known_default().unwrap_or_default();
        let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name does not resolve");
        for address in &addresses {
            match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let peers = addresses.iter().map(|address| address.ip().to_canonical()).collect();
                    return Ok(Route { local: stream.local_addr()?.ip().to_canonical(), peers });
                }
                Ok(Err(error)) => failed = error,
                Err(_) => {
                    let message = format!("no connection within {CONNECT_LIMIT:?}");
                    failed = io::Error::new(io::ErrorKind::TimedOut, message);
                }
            }
        }
        Err(failed)
    }

    /// Connects to the WebSocket of a session, and builds its request: at this endpoint, whatever host the session
    /// reported in `reported`, because that name may not resolve here.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn socket(&self, reported: &Url) -> io::Result<(Connection, Request<()>)> {
        let mut here = self.url.clone();
        here.set_path(reported.path());
        here.set_query(reported.query());
        let stream = self.connector.clone().call(uri(&here)?).await?;
        Ok((TokioIo::new(stream), upgrade(here, self.authorization())?))
    }

    /// As [`Self::socket`], at the reported host itself. It receives no user info.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn socket_at_reported_host(
        &self,
        reported: &Url,
    ) -> io::Result<(Connection, Request<()>)> {
        let mut there = reported.clone();
        let scheme = if reported.scheme() == "wss" { "https" } else { "http" };
        if scheme != self.url.scheme() || there.set_scheme(scheme).is_err() {
            return Err(io::Error::other(format!("{reported} is not an address for an endpoint at {self}")));
        }
        let stream = self.connector.clone().call(uri(&there)?).await?;
        Ok((TokioIo::new(stream), upgrade(there, None)?))
    }
}

/// Leaves out the user info, which may be secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

fn uri(url: &Url) -> io::Result<Uri> {
    url.as_str().parse().map_err(io::Error::other)
}

/// The request that upgrades a connection to a WebSocket.
fn upgrade(mut url: Url, authorization: Option<HeaderValue>) -> io::Result<Request<()>> {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    let _ = url.set_scheme(scheme);
    let mut request = url.as_str().into_client_request().map_err(io::Error::other)?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization);
    }
    Ok(request)
}

/// Connects, with TLS if the address requires it.
#[derive(Debug, Clone)]
pub(super) enum Connector {
    /// For `http://`, so that a machine without certificates can use a local driver.
    Open(HttpConnector),
    /// For `https://`.
    Secure(HttpsConnector<HttpConnector>),
}

impl Connector {
    fn new(is_secure: bool) -> Result<Self, EndpointError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        // Requests are small, and each waits for its answer.
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        if !is_secure {
            return Ok(Self::Open(tcp));
        }
        let roots = HttpsConnectorBuilder::new().with_native_roots();
        let roots = roots.map_err(|error| EndpointError::NoCertificates(error.to_string()))?;
        Ok(Self::Secure(roots.https_only().enable_http1().wrap_connector(tcp)))
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Neither of them needs to be polled for readiness.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Open(tcp) => {
                let connecting = tcp.call(uri);
                Box::pin(async move {
                    let stream = connecting.await.map_err(|error| io::Error::other(error_text(&error)))?;
                    Ok(MaybeHttpsStream::Http(stream))
                })
            }
            Self::Secure(secure) => {
                let connecting = secure.call(uri);
                Box::pin(async move {
                    connecting.await.map_err(|error| io::Error::other(error_text(error.as_ref())))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), expected, "{text}");
        };
        check("http://localhost:4444", "http://localhost:4444/");
        check("http://grid.example/wd/hub", "http://grid.example/wd/hub/");
        check("HTTP://[::1]:9515/", "http://[::1]:9515/");
    }

    #[test]
    fn invalid_address_error_hides_user_info() {
        let check = |text: &str, expected: &str| {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("secret"), "{text}: {error}");
        };
        check(
            "localhost:4444",
            "`localhost:4444` is not the address of a WebDriver endpoint: it begins with",
        );
        check("grid", "`grid` is not the address");
        check("ftp://ada:secret@grid", "`ftp://grid` is not the address");
        check("ada:secret@grid:port", "`grid:port` is not the address");
        check("http://ada:secret@grid:port", "`http://grid:port` is not the address");
        check(
            "http://ada:secret%40@grid",
            "`http://grid` is not the address of a WebDriver endpoint: its user info",
        );
        check("http://grid/?session=1", "`http://grid/?session=1` is not the address");
    }

    #[test]
    fn n1_user_info_is_sent_and_not_shown() {
        let endpoint = Endpoint::parse("http://ada:secret@grid:4444").unwrap();
        assert_eq!(format!("{endpoint} {endpoint:?}"), "http://grid:4444/ Endpoint(http://grid:4444/)");
        assert_eq!(endpoint.authorization().unwrap().to_str().unwrap(), "Basic YWRhOnNlY3JldA==");
        assert_eq!(endpoint.with_user().0.as_str(), "http://ada:secret@grid:4444/");
        let reported = Url::parse("ws://127.0.0.1:9/session/1?a").unwrap();
        let request = upgrade(reported, endpoint.authorization()).unwrap();
        assert_eq!(request.uri().to_string(), "ws://127.0.0.1:9/session/1?a");
        assert!(request.headers()[AUTHORIZATION].is_sensitive());
    }

    #[tokio::test]
    async fn route_to_endpoint_is_detected() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let loopback: IpAddr = [127, 0, 0, 1].into();
        assert_eq!(endpoint.route().await.unwrap(), Route { local: loopback, peers: vec![loopback] });
        drop(listener);
        assert_eq!(endpoint.route().await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
