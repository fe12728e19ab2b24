//! Origins: scheme, host and port, as browsers compare them.

use std::fmt;

use url::{Host, Url};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn usual_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The origin of a page, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    /// Name in lower case and as punycode, or address.
    pub(crate) host: Host,
    /// Port, the default one included.
    pub(crate) port: u16,
}

impl Origin {
    /// Parses an origin as written in suites.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let host = url.host().filter(|_| is_bare)?.to_owned();
        Some(Self { scheme, host, port: url.port().unwrap_or(scheme.usual_port()) })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == self.scheme.usual_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Origin::parse(text).map(|origin| origin.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn equivalent_spellings_are_one_origin() {
        check("http://Example.ORG:80", Some("http://example.org"));
        check("https://example.org:443/", Some("https://example.org"));
        check("https://example.org:80", Some("https://example.org:80"));
        check("http://0x7f.1:8080", Some("http://127.0.0.1:8080"));
        check("http://[0:0::1]:8080", Some("http://[::1]:8080"));
        check("https://bücher.example", Some("https://xn--bcher-kva.example"));
    }

    #[test]
    fn extra_or_missing_parts_are_not_an_origin() {
        for text in [
            "example.org",
            "ftp://a.example",
            "http://a.example/x",
            "http://a.example?x",
            "http://u@a.example",
            "",
        ] {
            check(text, None);
        }
    }
}
