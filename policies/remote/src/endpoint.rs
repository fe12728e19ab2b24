//! The addresses of a server.

use clawrl_core::check_base_url;
use hyper::Uri;

/// A valid base URL, to which routes are appended.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    base: String,
}

impl Endpoint {
    /// `None` if [`check_base_url`] or the HTTP library refuses the URL.
    pub(crate) fn new(base_url: &str) -> Option<Self> {
        let base = check_base_url(base_url).ok()?;
        let endpoint = Self { base };
        endpoint.parsed("models").is_some().then_some(endpoint)
    }

    /// The URL of a route, for messages.
    pub(crate) fn url(&self, route: &str) -> String {
        format!("{}/{route}", self.base)
    }

    /// The URI of a route. The default is never used, because `new` has tried a route.
    pub(crate) fn route(&self, route: &str) -> Uri {
        self.parsed(route).unwrap_or_default()
    }

    fn parsed(&self, route: &str) -> Option<Uri> {
        self.url(route).parse().ok()
    }
}
