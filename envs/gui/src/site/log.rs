//! The requests to an attempt's sites, in the order in which they were complete.
//!
//! L1. A request without room in the log is not answered: see
//! S3.
//! L2. If there is no room for a body, it is dropped, and patterns that need it neither match nor fail.

use std::sync::Arc;

use clawrl_core::RequestPattern;
use http::StatusCode;
use serde_json::Value;

use super::pattern::{Features, Fit, fit};
use super::request::{Sent, SiteRequest};

/// Maximum bytes of requests without their bodies.
const HEAD_BYTES: usize = 16 << 20;
const CONTENT_BYTES: usize = 16 << 20;
/// Cost of a text in addition to its bytes.
const TEXT_COST: usize = 48;
/// Cost of a request in addition to its texts.
const REQUEST_COST: usize = 320;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedRequest {
    pub(crate) site: Arc<str>,
    /// Upper case.
    pub(crate) method: String,
    /// Without query, decoded.
    pub(crate) path: String,
    /// Query values, in order.
    pub(crate) query: Vec<(String, String)>,
    /// Values of a form in the body, in order; for files, their names.
    pub(crate) form: Vec<(String, String)>,
    pub(crate) cookies: Vec<(String, String)>,
    /// Text of a JSON body: parsed, it could take thirty times the memory.
    pub(crate) json: Option<String>,
    /// Whether the body had more than `form` and `json` contain.
    pub(crate) is_cut: bool,
    /// Status of the answer; `None` if there was none, or none yet.
    pub(crate) status: Option<u16>,
    /// Whether a route of the task defines the answer, including its status.
    pub(crate) is_written: bool,
}

/// Number of requests that match a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    /// Certain matches.
    pub(crate) surely: u32,
    /// Possible matches, whose bodies were too large to be kept.
    pub(crate) perhaps: u32,
}

#[derive(Debug)]
pub(super) struct Log {
    entries: Vec<LoggedRequest>,
    head_room: usize,
    content_room: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self { entries: Vec::new(), head_room: HEAD_BYTES, content_room: CONTENT_BYTES }
    }
}

impl Log {
    pub(super) fn has_room(&self, request: &SiteRequest) -> bool {
        head_cost(request) <= self.head_room
    }

    /// Adds a request if there is room, and returns its index.
    pub(super) fn push(&mut self, site: &Arc<str>, request: SiteRequest) -> usize {
        self.head_room = self.head_room.saturating_sub(head_cost(&request));
        let SiteRequest { method, path, query, cookies, content } = request;
        let content_room = self.content_room.checked_sub(content_cost(&content));
        let Sent { form, json, is_cut } = match content_room {
            Some(room) => {
                self.content_room = room;
                content
            }
            None => Sent { is_cut: true, ..Sent::default() },
        };
        self.entries.push(LoggedRequest {
            site: Arc::clone(site),
            method: method.as_str().to_owned(),
            path,
            query,
            form,
            cookies,
            json: json.map(|(text, _)| text),
            is_cut,
            status: None,
            is_written: false,
        });
        self.entries.len() - 1
    }

    pub(super) fn answered(&mut self, entry: usize, status: StatusCode, is_written: bool) {
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.status = Some(status.as_u16());
            entry.is_written = is_written;
        }
    }

    pub(super) fn entries(&self) -> &[LoggedRequest] {
        &self.entries
    }

    pub(super) fn matching(&self, site: Option<&str>, pattern: &RequestPattern) -> Matching {
        let mut matching = Matching::default();
        let of_site = |entry: &&LoggedRequest| site.is_none_or(|site| *entry.site == *site);
        for entry in self.entries.iter().filter(of_site) {
            match entry.fit(pattern) {
                Fit::Yes => matching.surely += 1,
                Fit::Perhaps => matching.perhaps += 1,
                Fit::No => {}
            }
        }
        matching
    }
}

impl LoggedRequest {
    fn fit(&self, pattern: &RequestPattern) -> Fit {
        let asked = self.json.as_deref().filter(|_| !pattern.json.is_empty());
        let json: Option<Value> = asked.and_then(|text| serde_json::from_str(text).ok());
        let request = Features {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            cookies: &self.cookies,
            form: &self.form,
            json: json.as_ref(),
            is_cut: self.is_cut,
        };
        fit(pattern, request)
    }
}

fn head_cost(request: &SiteRequest) -> usize {
    REQUEST_COST
        + request.method.as_str().len()
        + request.path.len()
        + cost(&request.query)
        + cost(&request.cookies)
}

fn content_cost(content: &Sent) -> usize {
    cost(&content.form) + content.json.as_ref().map_or(0, |(text, _)| text.len())
}

fn cost(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| name.len() + value.len() + 2 * TEXT_COST).sum()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    fn request(path: String, json: Option<Value>) -> SiteRequest {
        let json = json.map(|value| (value.to_string(), value));
        SiteRequest {
            method: Method::POST,
            path,
            query: Vec::new(),
            cookies: Vec::new(),
            content: Sent { json, ..Sent::default() },
        }
    }

    fn pattern(value: Value) -> RequestPattern {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn l1_log_is_bounded() {
        let mut log = Log::default();
        let long = || request("/".repeat(60_000), None);
        while log.has_room(&long()) {
            log.push(&"a".into(), long());
        }
        assert_eq!(log.entries().len(), HEAD_BYTES / (60_000 + REQUEST_COST + 4));
        assert!(log.has_room(&request("/".to_owned(), None)));
    }

    #[test]
    fn l2_bodies_are_forgotten_when_there_are_too_many() {
        let mut log = Log::default();
        let text = "a".repeat(1_000_000);
        for _ in 0..20 {
            log.push(&"a".into(), request("/".to_owned(), Some(json!({"n": 1, "text": text}))));
        }
        let check = |wanted: Value, surely, perhaps| {
            let found = log.matching(Some("a"), &pattern(wanted));
            assert_eq!(found, Matching { surely, perhaps });
        };
        check(json!({"json": {"/n": 1}}), 16, 4);
        check(json!({"json": {"/n": 2}}), 0, 4);
        check(json!({"path": "/"}), 20, 0);
        check(json!({"path": "/x", "json": {"/n": 1}}), 0, 0);
        assert_eq!(log.matching(Some("b"), &pattern(json!({}))), Matching::default());
    }
}
