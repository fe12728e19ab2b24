//! URL prefixes that a tool may request.
//!
//! U1. URLs are compared as browsers parse them: host names in lower case and punycode, numeric hosts as addresses, `.` and
//! `..` resolved, the default port filled in. Spelling never changes the result. U2. Text that servers may parse differently
//! is never allowed: encoded dots, slashes, backslashes and percent signs in a path, and a user name or password before the
//! host.

use std::net::IpAddr;

use url::{Host, Url};

/// Percent-encodings that servers undo before they look for a file, in lower case.
const TRICKS: [&str; 5] = ["%2e", "%2f", "%5c", "%25", "%00"];

/// A beginning of addresses: scheme, host, port and path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedUrl {
    url: Url,
}

impl AllowedUrl {
    /// Parses a prefix.
    ///
    /// # Errors
    /// The problem, as the end of a sentence about the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = requested_url(text)?;
        if url.query().is_some() || text.contains('#') {
            return Err(
                "has a query or a fragment, and is a beginning: name scheme, host and path".to_owned()
            );
        }
        Ok(Self { url })
    }

    /// Whether a URL starts with this prefix. The last path segment matches whole: `/v1` allows `/v1` and `/v1/x`, never `/v12`.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        let (own, path) = (self.url.path(), url.path());
        let rest = path.strip_prefix(own);
        self.url.scheme() == url.scheme()
            && self.url.host() == url.host()
            && self.url.port_or_known_default() == url.port_or_known_default()
            && rest.is_some_and(|rest| own.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
    }

    /// The IP address of the host, if the host is not a name.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Whether the host is `localhost` or a name below it.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        self.url.domain().is_some_and(is_localhost)
    }

    /// The normalised form that is compared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

/// `localhost` and names below it.
#[must_use]
pub fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// Parses a URL that may be requested, as browsers do.
///
/// # Errors
/// The problem, as the end of a sentence about the URL.
pub fn requested_url(text: &str) -> Result<Url, String> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("has a space, a backslash or a control character".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("begins with `{}:`, and only `http://` and `https://` are known", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
        return Err("has a name or a password before its host".to_owned());
    }
    // The text too: `%2e%2e` is resolved as `..` is, and a server might not.
    let written = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    if let Some(trick) = TRICKS.iter().find(|trick| written.contains(**trick)) {
        return Err(format!("has `{trick}` in its path"));
    }
    let is_half =
        |rest: &str| !rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if written.split('%').skip(1).any(is_half) {
        return Err("has a `%` in its path that encodes nothing".to_owned());
    }
    let odd = |segment: &str| segment.starts_with("..;") || segment.starts_with(".;");
    if url.path().split('/').any(odd) {
        return Err("has dots with a semicolon in its path".to_owned());
    }
    Ok(url)
}

/// The text between scheme and path, as written.
fn authority(text: &str) -> &str {
    let rest = text.split_once(':').map_or(text, |(_, rest)| rest).trim_start_matches('/');
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(allowed: &str, asked: &str, expected: bool) {
        let allowed = AllowedUrl::parse(allowed).unwrap();
        let found = requested_url(asked).is_ok_and(|url| allowed.allows(&url));
        assert_eq!(found, expected, "{} allows {asked}", allowed.as_str());
    }

    #[test]
    fn u1_spellings_are_one_address() {
        check("https://api.example.com/v1/", "https://api.example.com/v1/users?id=1", true);
        check("https://api.example.com/v1/", "https://API.example.com:443/v1/x/../y", true);
        check("https://bücher.example/", "https://xn--bcher-kva.example/a", true);
        check("http://127.0.0.1:8000/", "http://0x7f.1:8000/a", true);
        check("http://127.0.0.1:8000/", "http://[::ffff:127.0.0.1]:8000/a", false);
        check("https://api.example.com/v1", "https://api.example.com/v1", true);
        check("https://api.example.com/v1", "https://api.example.com/v1/a", true);
    }

    #[test]
    fn u1_other_urls_are_not_allowed() {
        check("https://api.example.com/v1/", "http://api.example.com/v1/", false);
        check("https://api.example.com/v1/", "https://api.example.com:8443/v1/", false);
        check("https://api.example.com/v1/", "https://api.example.com.evil.test/v1/", false);
        check("https://api.example.com/v1/", "https://api.example.com/v1/../admin", false);
        check("https://api.example.com/v1/", "https://api.example.com/v1", false);
        check("https://api.example.com/v1", "https://api.example.com/v12", false);
        check("https://api.example.com/v1/", "https://api.example.com/%76%31/", false);
    }

    #[test]
    fn u2_tricks_are_refused() {
        for asked in [
            "https://api.example.com/v1/%2e%2e/admin",
            "https://api.example.com/v1/..%2Fadmin",
            "https://api.example.com/v1/%252e%252e/admin",
            "https://api.example.com/v1/..;/admin",
            "https://api.example.com/v1/%..",
            "https://api.example.com/v1/..\\admin",
            "https://api.example.com@evil.test/v1/",
            "https://@api.example.com/v1/",
            "https://evil.test\t@api.example.com/v1/",
            "file:///etc/passwd",
            "//api.example.com/v1/",
            "api.example.com/v1/",
            "",
        ] {
            check("https://api.example.com/v1/", asked, false);
        }
        for wrong in
            ["https://a.example/?q=1", "https://a.example/#x", "ftp://a.example/", "https://u:p@a.example/"]
        {
            assert!(AllowedUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        let check = |text: &str, address: Option<&str>, is_localhost: bool| {
            let allowed = AllowedUrl::parse(text).unwrap();
            let expected = address.map(|address| address.parse::<IpAddr>().unwrap());
            assert_eq!((allowed.address(), allowed.is_localhost()), (expected, is_localhost), "{text}");
        };
        check("http://10.1.2.3/", Some("10.1.2.3"), false);
        check("http://[::1]:80/", Some("::1"), false);
        check("http://localhost:8000/", None, true);
        check("http://localhost.evil.test/", None, false);
    }

    proptest! {
        #[test]
        fn u1_whatever_is_allowed_begins_so(tail in "[a-z./%\\\\@:?#;0-9 ]{0,20}") {
            let allowed = AllowedUrl::parse("https://api.example.com/v1/").unwrap();
            if let Ok(url) = requested_url(&format!("https://api.example.com/v1/{tail}")) && allowed.allows(&url) {
                prop_assert!(url.as_str().starts_with("https://api.example.com/v1/"), "{url}");
                prop_assert!(!url.path().split('/').any(|segment| segment == ".."), "{url}");
                prop_assert!(!url.path().contains("%."), "{url}");
            }
        }
    }
}
