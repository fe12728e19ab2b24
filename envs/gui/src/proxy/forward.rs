//! Forwards requests to an origin of the task, and returns the answers.
//!
//! F1. A connection serves one request and lives no longer than its answer.
//! F2. Hop-by-hop headers (RFC 9110, 7.6.1) are not forwarded.

use std::io;
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::in_flight::BodyWith;
use crate::site::{BODY_BYTES, Body, Origin, page};

/// Hop-by-hop headers, in addition to those that `connection` names.
const OF_NEIGHBOURS: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Time for an origin to start its answer. Long polling ends sooner, by the origin's own limit.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

pub(super) enum Forwarded {
    /// Answered, by the origin, or here if the page's request is at fault.
    Answered(Response<Body>),
    Failed(String),
}

/// Sends a request over a fresh connection to its origin.
pub(super) async fn forward(stream: TcpStream, origin: &Origin, request: Request<Incoming>) -> Forwarded {
    let refused = |status, text| Forwarded::Answered(page(status, text));
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_BYTES) {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
    }
    let Some(request) = outgoing(origin, request) else {
        return refused(StatusCode::BAD_REQUEST, "not an address");
    };
    match tokio::time::timeout(HEAD_LIMIT, exchange(stream, request)).await {
        Ok(Ok(answer)) => Forwarded::Answered(answer),
        // The request's body was too large or incomplete.
        Ok(Err(error)) if error.is_user() => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large")
        }
        Ok(Err(error)) => Forwarded::Failed(format!("{origin} did not answer: {error}")),
        Err(_late) => Forwarded::Failed(format!("{origin} did not answer within {HEAD_LIMIT:?}")),
    }
}

fn outgoing(origin: &Origin, request: Request<Incoming>) -> Option<Request<Limited<Incoming>>> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    // `http://a.example?x` has none.
    head.uri =
        Uri::try_from(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }).ok()?;
    head.version = Version::HTTP_11;
    strip(&mut head.headers);
    let mut host = origin.host.to_string();
    if origin.port != origin.scheme.usual_port() {
        host = format!("{host}:{}", origin.port);
    }
    head.headers.insert(HOST, HeaderValue::try_from(host).ok()?);
    Some(Request::from_parts(head, Limited::new(body, BODY_BYTES)))
}

async fn exchange(stream: TcpStream, request: Request<Limited<Incoming>>) -> hyper::Result<Response<Body>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = AbortOnDrop(tokio::spawn(connection));
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    head.version = Version::HTTP_11;
    strip(&mut head.headers);
    let body = BodyWith { body: body.map_err(io::Error::other), _held: connection };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_NEIGHBOURS) {
        headers.remove(name);
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
