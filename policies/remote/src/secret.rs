//! The key of a server.
//!
//! I1. The key leaves this module only as a header that is marked as sensitive. I2. `Debug` does not show it. I3. It is
//! removed from everything that a server sends back, in all spellings of [`clawrl_redact`].

use std::borrow::Cow;
use std::fmt;

use clawrl_redact::Redactor;
use hyper::header::HeaderValue;

/// The name of the key in its mark, `[key]`.
const NAME: &str = "key";

/// A key. Clones are as secret.
#[derive(Clone)]
pub struct Secret {
    text: String,
    /// Without the key if it is a placeholder, such as `none` or `EMPTY`.
    redactor: Redactor,
}

impl Secret {
    /// Trims a key; `None` if it is empty or not valid in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        let redactor = || Redactor::for_tools([(NAME.to_owned(), text.to_owned())]);
        fits.then(|| Self { text: text.to_owned(), redactor: redactor() })
    }

    /// The key after `prefix`, as a header value.
    pub(crate) fn header(&self, prefix: &str) -> HeaderValue {
        // Graphic ASCII, which `new` ensured, is always a valid value.
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.text))
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// The text without the key.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redactor.redact(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Bytes at the end of this text that may be the beginning of the key.
    pub(crate) fn begun_at_end_of(&self, text: &str) -> usize {
        if self.redactor.names().next().is_none() {
            return 0;
        }
        // Graphic ASCII has no beginning within a character.
        let longest = (self.text.len() - 1).min(text.len());
        (1..=longest)
            .rev()
            .find(|len| text.as_bytes().ends_with(&self.text.as_bytes()[..*len]))
            .unwrap_or_default()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

/// The text without the key, if there is one.
pub(crate) fn redacted(key: Option<&Secret>, text: &str) -> String {
    match key {
        Some(key) => key.redact(text).into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_it() {
        let secret = Secret::new(" sk-0123456789\n").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(not shown)");
        assert_eq!(secret.redact("bad key sk-0123456789, sir"), "bad key [key], sir");
        assert_eq!(secret.redact("?key=sk%2D0123456789"), "?key=[key]");
        let header = secret.header("Bearer ");
        assert_eq!(header, "Bearer sk-0123456789");
        assert!(!format!("{header:?}").contains("0123"));
    }

    #[test]
    fn placeholders_stay_words() {
        assert_eq!(Secret::new("EMPTY").unwrap().redact("an EMPTY folder"), "an EMPTY folder");
    }

    #[test]
    fn what_no_header_carries_is_no_key() {
        assert!(Secret::new("  ").is_none());
        assert!(Secret::new("two words").is_none());
        assert!(Secret::new("sk-é").is_none());
    }
}
