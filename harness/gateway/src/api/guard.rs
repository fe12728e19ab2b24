//! Checks of `Host` and `Origin`.
//!
//! I1. A browser that used another name for this server (DNS rebinding), or that comes from another site's page, is refused before its
//! request is read. I2. A request without `Origin` is not from a page; one without `Host` is refused.

use axum::http::{HeaderMap, header};

use super::error::ApiError;

/// Names of the loopback.
const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The names of this server.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// Lower case, as in `Host`, with the port.
    hosts: Vec<String>,
}

impl Guard {
    /// The loopback names at this port, and `more` names: `host`, or `host:port`.
    pub(super) fn new(port: u16, more: &[String]) -> Self {
        let mut hosts: Vec<String> = LOCAL.iter().map(|host| format!("{host}:{port}")).collect();
        if port == 80 {
            hosts.extend(LOCAL.map(str::to_owned));
        }
        hosts.extend(more.iter().map(|host| host.to_ascii_lowercase()));
        Self { hosts }
    }

    /// Accepts or refuses a request.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let known = |host: &str| self.hosts.contains(&host.to_ascii_lowercase());
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if hosts.next().is_some() || !known(host) {
            let message = "`Host` does not name this server; add names with `--allow-host`";
            return Err(ApiError::forbidden("host_not_allowed", message));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !host.is_some_and(known) {
                let message = "the request comes from another site's page";
                return Err(ApiError::forbidden("origin_not_allowed", message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &str)], expected: Option<&str>) {
        let guard = Guard::new(30_000, &["chat.example:443".to_owned()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let error =
            guard.check(&map).err().map(|error| error.json()["error"]["code"].as_str().unwrap().to_owned());
        assert_eq!(error.as_deref(), expected, "{headers:?}");
    }

    #[test]
    fn only_names_of_this_server() {
        check(&[("host", "127.0.0.1:30000")], None);
        check(&[("host", "LocalHost:30000")], None);
        check(&[("host", "[::1]:30000")], None);
        check(&[("host", "chat.example:443")], None);
        for host in ["", "127.0.0.1", "127.0.0.1:30001", "evil.example:30000", "127.0.0.1.evil.example:30000"]
        {
            check(&[("host", host)], Some("host_not_allowed"));
        }
        check(&[], Some("host_not_allowed"));
        check(&[("host", "127.0.0.1:30000"), ("host", "evil.example")], Some("host_not_allowed"));
    }

    #[test]
    fn only_pages_of_this_server() {
        let from = |origin, expected| check(&[("host", "127.0.0.1:30000"), ("origin", origin)], expected);
        from("http://127.0.0.1:30000", None);
        from("http://localhost:30000", None);
        for origin in
            ["null", "http://evil.example", "file://127.0.0.1:30000", "http://127.0.0.1:30000.evil.example"]
        {
            from(origin, Some("origin_not_allowed"));
        }
    }
}
