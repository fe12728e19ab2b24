//! The addresses of a server.

use clawrl_core::check_base_url;
use hyper::Uri;

/// A base URL that is sound, to which routes are appended.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    base: String,
}

impl Endpoint {
    /// `None` for anything that [`check_base_url`] or the HTTP library refuses.
    pub(crate) fn new(base_url: &str) -> Option<Self> {
        let base = check_base_url(base_url).ok()?;
        let endpoint = Self { base };
        endpoint.parsed("models").is_some().then_some(endpoint)
    }

    /// The address of a route, as people read it.
    pub(crate) fn url(&self, route: &str) -> String {
        format!("{}/{route}", self.base)
    }

    /// The address of a route. The default for a route of ours does not occur: `new` tried one.
    pub(crate) fn route(&self, route: &str) -> Uri {
        self.parsed(route).unwrap_or_default()
    }

    fn parsed(&self, route: &str) -> Option<Uri> {
        self.url(route).parse().ok()
    }
}
