//! The key of a server.
//!
//! I1. Its text leaves this module in one way only: as a header that is marked as sensitive. I2. `Debug` shows
//! nothing. I3. What a server sends back is cleaned of it.

use std::borrow::Cow;
use std::fmt;

use hyper::header::HeaderValue;

/// What stands where a key stood.
const STRUCK: &str = "[key]";

/// Shorter keys are placeholders that servers without keys are given (`none`, `EMPTY`); striking such a word out of
/// every text would damage the texts.
const LEAST_STRUCK: usize = 8;

/// A key. Clones are as secret.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A key without the space around it; `None` if nothing is left, or something that no header can carry.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The key behind `prefix`, as a header's value.
    pub(crate) fn header(&self, prefix: &str) -> HeaderValue {
        // Graphic ASCII, which `new` saw to, always is a value.
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0))
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// The text without the key.
    #[must_use]
    pub fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.len() >= LEAST_STRUCK && text.contains(&self.0) {
            Cow::Owned(text.replace(&self.0, STRUCK))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Bytes at the end of this text that may be the beginning of the key.
    pub(crate) fn begun_at_end_of(&self, text: &str) -> usize {
        if self.0.len() < LEAST_STRUCK {
            return 0;
        }
        // Graphic ASCII has no beginning within a character.
        let longest = (self.0.len() - 1).min(text.len());
        (1..=longest)
            .rev()
            .find(|len| text.as_bytes().ends_with(&self.0.as_bytes()[..*len]))
            .unwrap_or_default()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

/// The text without the key, if there is one.
pub(crate) fn struck(key: Option<&Secret>, text: &str) -> String {
    match key {
        Some(key) => key.strike(text).into_owned(),
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
        assert_eq!(secret.strike("bad key sk-0123456789, sir"), "bad key [key], sir");
        let header = secret.header("Bearer ");
        assert_eq!(header, "Bearer sk-0123456789");
        assert!(!format!("{header:?}").contains("0123"));
    }

    #[test]
    fn placeholders_stay_words() {
        assert_eq!(Secret::new("EMPTY").unwrap().strike("an EMPTY folder"), "an EMPTY folder");
    }

    #[test]
    fn what_no_header_carries_is_no_key() {
        assert!(Secret::new("  ").is_none());
        assert!(Secret::new("two words").is_none());
        assert!(Secret::new("sk-é").is_none());
    }
}
