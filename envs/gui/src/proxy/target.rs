//! The target of a request to the proxy.

use http::{Method, Uri};
use url::Host;

use crate::site::{Origin, Scheme};

/// Maximum characters of a name, by RFC 1035.
const NAME_CHARS: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Page(Origin),
    /// A connection to this origin, or to the one with the other scheme at the same port.
    Tunnel(Origin),
}

impl Target {
    /// Parses it; `None` for a request that browsers do not send to a proxy.
    pub(super) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let host = Host::parse(authority.host()).ok()?;
        if matches!(&host, Host::Domain(name) if name.len() > NAME_CHARS) {
            return None;
        }
        // An invalid port would be left out.
        let is_odd =
            authority.port_u16().is_none() && authority.as_str().trim_end_matches(':') != authority.host();
        if is_odd {
            return None;
        }
        if *method == Method::CONNECT {
            let port = authority.port_u16()?;
            let scheme = if port == Scheme::Http.usual_port() { Scheme::Http } else { Scheme::Https };
            return Some(Self::Tunnel(Origin { scheme, host, port }));
        }
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return None,
        };
        let port = authority.port_u16().unwrap_or(scheme.usual_port());
        Some(Self::Page(Origin { scheme, host, port }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, uri: &str, expected: Option<&str>) {
        let found = uri.parse().ok().and_then(|uri| Target::of(&method, &uri)).map(|target| match target {
            Target::Page(origin) => origin.to_string(),
            Target::Tunnel(origin) => format!("tunnel {origin}"),
        });
        assert_eq!(found.as_deref(), expected, "{method} {uri}");
    }

    #[test]
    fn pages_and_tunnels_have_origins() {
        check(Method::GET, "http://Shop.localhost/x?y", Some("http://shop.localhost"));
        check(Method::POST, "http://shop.localhost:80", Some("http://shop.localhost"));
        check(Method::GET, "http://[::1]:8080/", Some("http://[::1]:8080"));
        check(Method::GET, "http://[::1]/", Some("http://[::1]"));
        check(Method::GET, "https://a.example/", Some("https://a.example"));
        check(Method::CONNECT, "a.example:443", Some("tunnel https://a.example"));
        check(Method::CONNECT, "a.example:80", Some("tunnel http://a.example"));
        check(Method::CONNECT, "[::1]:8443", Some("tunnel https://[::1]:8443"));
        check(Method::GET, "http://0x7f.1:8080/", Some("http://127.0.0.1:8080"));
    }

    #[test]
    fn nothing_else_is_a_target() {
        check(Method::GET, "/x", None);
        check(Method::OPTIONS, "*", None);
        check(Method::CONNECT, "a.example", None);
        check(Method::GET, "ftp://a.example/", None);
        check(Method::GET, "http://user@a.example/", None);
        check(Method::GET, "http://a.example:99999/", None);
        check(Method::GET, &format!("http://{}/", "a.".repeat(200)), None);
    }
}
