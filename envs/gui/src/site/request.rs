//! A request to a site, read as far as checks and routes need it.

use std::time::Duration;

use bytes::Bytes;
use clawrl_core::RequestPattern;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::BodyExt as _;
use serde_json::Value;
use url::form_urlencoded;

use super::multipart::{Multipart, boundary};
use super::path::shown;
use super::pattern::{Features, Fit, fit};

pub(crate) const BODY_BYTES: usize = 64 << 20;
/// Maximum bytes of a body that are kept for checks.
pub(super) const KEPT_BYTES: usize = 1 << 20;
/// Maximum values of a query, a form or cookies; pages do not send more.
const VALUES: usize = 1_000;
/// A body that makes no progress for this time is abandoned.
const STALLED: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct SiteRequest {
    pub(super) method: Method,
    /// In readable form.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) cookies: Vec<(String, String)>,
    pub(super) content: Sent,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Sent {
    pub(super) form: Vec<(String, String)>,
    /// JSON with its text, which takes far less memory.
    pub(super) json: Option<(String, Value)>,
    /// Whether there was more than was kept.
    pub(super) is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestError {
    TooLarge,
    Stalled,
    Broken,
}

impl RequestError {
    /// The status to answer, if the client still listens.
    pub(super) fn status(self) -> Option<StatusCode> {
        match self {
            Self::TooLarge => Some(StatusCode::PAYLOAD_TOO_LARGE),
            Self::Stalled => Some(StatusCode::REQUEST_TIMEOUT),
            Self::Broken => None,
        }
    }
}

impl SiteRequest {
    pub(super) async fn read<B>(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Self, RequestError>
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let announced = text(CONTENT_LENGTH).and_then(|length| length.parse().ok()).unwrap_or(0);
        if announced > BODY_BYTES {
            return Err(RequestError::TooLarge);
        }
        let arriving = LimitedBody { body, room: BODY_BYTES };
        Ok(Self {
            method: method.clone(),
            path: shown(uri.path()),
            query: values(uri.query().unwrap_or_default().as_bytes()).0,
            cookies: cookies(headers),
            content: Sent::read(text(CONTENT_TYPE).unwrap_or_default(), arriving).await?,
        })
    }

    pub(super) fn fit(&self, pattern: &RequestPattern) -> Fit {
        let Sent { form, json, is_cut } = &self.content;
        let request = Features {
            method: self.method.as_str(),
            path: &self.path,
            query: &self.query,
            cookies: &self.cookies,
            form,
            json: json.as_ref().map(|(_, value)| value),
            is_cut: *is_cut,
        };
        fit(pattern, request)
    }
}

impl Sent {
    async fn read<B>(content_type: &str, mut arriving: LimitedBody<B>) -> Result<Self, RequestError>
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        if let Some(boundary) = boundary(content_type) {
            let mut form = Multipart::new(boundary, KEPT_BYTES, VALUES);
            while let Some(piece) = arriving.next().await? {
                form.push(&piece);
            }
            let form = form.finish();
            return Ok(form.map_or_else(Self::default, |form| Self {
                form: form.fields,
                json: None,
                is_cut: form.is_cut,
            }));
        }
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_form = kind == "application/x-www-form-urlencoded";
        // Scripts often send JSON without declaring it.
        let may_be_json =
            matches!(kind.as_str(), "" | "application/json" | "text/plain") || kind.ends_with("+json");
        let mut kept = Vec::new();
        let mut is_cut = false;
        while let Some(piece) = arriving.next().await? {
            is_cut |= kept.len() + piece.len() > KEPT_BYTES;
            if is_cut {
                kept = Vec::new();
            } else if is_form || may_be_json {
                kept.extend_from_slice(&piece);
            }
        }
        if is_form {
            let (form, is_more) = values(&kept);
            return Ok(Self { form, json: None, is_cut: is_cut || is_more });
        }
        let json = String::from_utf8(kept).ok().filter(|_| may_be_json).and_then(|text| {
            let value = serde_json::from_str(&text).ok()?;
            Some((text, value))
        });
        Ok(Self { form: Vec::new(), json, is_cut: is_cut && may_be_json })
    }
}

/// A body with a maximum length and a stall timeout.
struct LimitedBody<B> {
    body: B,
    room: usize,
}

impl<B: hyper::body::Body<Data = Bytes> + Unpin> LimitedBody<B> {
    async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            let frame =
                tokio::time::timeout(STALLED, self.body.frame()).await.map_err(|_| RequestError::Stalled)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| RequestError::Broken)?;
            // Trailers are ignored.
            let Ok(piece) = frame.into_data() else { continue };
            self.room = self.room.checked_sub(piece.len()).ok_or(RequestError::TooLarge)?;
            return Ok(Some(piece));
        }
    }
}

/// Names and values of a query or a form, and whether there were more.
fn values(text: &[u8]) -> (Vec<(String, String)>, bool) {
    let mut pairs = form_urlencoded::parse(text).into_owned();
    let values = pairs.by_ref().take(VALUES).collect();
    (values, pairs.next().is_some())
}

fn cookies(headers: &HeaderMap) -> Vec<(String, String)> {
    let lines = headers.get_all(COOKIE).into_iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')).filter_map(|pair| {
        let pair = String::from_utf8_lossy(pair);
        let (name, value) = pair.trim().split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    pairs.take(VALUES).collect()
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::json;

    use super::*;

    async fn read(content_type: &str, body: impl Into<Bytes>) -> Result<Sent, RequestError> {
        let arriving = LimitedBody { body: Full::new(body.into()), room: BODY_BYTES };
        Sent::read(content_type, arriving).await
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[tokio::test]
    async fn bodies_are_forms_or_json() {
        let form = pairs(&[("a", "1 2"), ("a", "é"), ("b", "")]);
        let sent = read("application/x-www-form-urlencoded; charset=utf-8", "a=1+2&a=%C3%A9&b").await;
        assert_eq!(sent, Ok(Sent { form, ..Sent::default() }));
        for kind in ["application/json", "text/plain;charset=UTF-8", "", "application/vnd.api+json"] {
            let json = Some(("[1]".to_owned(), json!([1])));
            assert_eq!(read(kind, "[1]").await, Ok(Sent { json, ..Sent::default() }), "{kind}");
        }
        for (kind, body) in [("application/json", "[1"), ("text/html", "[1]"), ("image/png", "\u{0}")] {
            assert_eq!(read(kind, body).await, Ok(Sent::default()), "{kind}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read("application/json", deep).await, Ok(Sent::default()));
    }

    #[tokio::test]
    async fn long_bodies_are_not_kept() {
        let long = "a".repeat(KEPT_BYTES + 1);
        let cut = Ok(Sent { is_cut: true, ..Sent::default() });
        assert_eq!(read("application/x-www-form-urlencoded", long.clone()).await, cut);
        assert_eq!(read("application/json", long.clone()).await, cut);
        assert_eq!(read("image/png", long).await, Ok(Sent::default()));
        let many = read("application/x-www-form-urlencoded", "a&".repeat(VALUES + 1)).await.unwrap();
        assert_eq!((many.form.len(), many.is_cut), (VALUES, true));
        assert_eq!(read("image/png", vec![0; BODY_BYTES]).await, Ok(Sent::default()));
        assert_eq!(read("image/png", vec![0; BODY_BYTES + 1]).await, Err(RequestError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_body_is_abandoned() {
        let never = http_body_util::StreamBody::new(futures_util::stream::pending());
        let never: http_body_util::combinators::BoxBody<Bytes, std::io::Error> = never.boxed();
        let arriving = LimitedBody { body: never, room: BODY_BYTES };
        assert_eq!(Sent::read("text/plain", arriving).await, Err(RequestError::Stalled));
    }

    #[test]
    fn cookies_are_pairs() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; b=x=y".parse().unwrap());
        headers.append(COOKIE, "c=;nothing; d=\"q\"".parse().unwrap());
        let expected = pairs(&[("a", "1"), ("b", "x=y"), ("c", ""), ("d", "\"q\"")]);
        assert_eq!(cookies(&headers), expected);
    }
}
