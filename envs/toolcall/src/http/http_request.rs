//! A request of the `http` tool, built from a call.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use hyper::body::Bytes;
use serde_json::{Map, Value};
use url::Url;

use super::tool::HttpTool;
use clawrl_core::requested_url;

/// Maximum bytes of a request body.
const BODY_BYTES: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl HttpRequest {
    /// From the arguments of a call.
    ///
    /// # Errors
    /// Why it is not permitted, for the policy.
    pub(crate) fn new(tool: &HttpTool, arguments: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let written = text("url").ok_or("`url` is missing, a string")?;
        let mut url = requested_url(written).map_err(|reason| format!("the address {reason}"))?;
        url.set_fragment(None);
        if !tool.allows(&url) {
            return Err(format!("{url} is not allowed; addresses begin with {}", tool.beginnings()));
        }
        let name = text("method").unwrap_or_else(|| tool.default_method());
        if !tool.methods().iter().any(|method| method == name) {
            return Err(format!("the method is one of {}", tool.methods().join(", ")));
        }
        let method = Method::from_bytes(name.as_bytes()).map_err(|_| "not a valid method")?;
        let body = text("body").unwrap_or_default();
        if body.len() > BODY_BYTES {
            return Err(format!("the body is longer than {} KiB", BODY_BYTES >> 10));
        }
        let mut headers = tool.headers().clone();
        for (name, value) in arguments.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let lower = name.to_ascii_lowercase();
            if !tool.may_set(&lower) {
                return Err(format!("the header `{name}` may not be set"));
            }
            let pair = (HeaderName::from_bytes(lower.as_bytes()), value.as_str().map(HeaderValue::from_str));
            let (Ok(name), Some(Ok(value))) = pair else {
                return Err(format!("the header `{name}` cannot have this value"));
            };
            headers.insert(name, value);
        }
        Ok(Self { url, method, headers, body: Bytes::copy_from_slice(body.as_bytes()) })
    }
}
