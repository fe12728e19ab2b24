//! Forms as browsers send them: `application/x-www-form-urlencoded`.

use std::collections::BTreeMap;

/// Fields of a form; of a repeated name, the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    /// Parses a form or a query. Invalid escapes are kept as written.
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let pair = |pair: &[u8]| {
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (plain(&pair[..end]), plain(pair.get(end + 1..).unwrap_or_default()))
        };
        Self(pairs.map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A numeric field.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

fn plain(text: &[u8]) -> String {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (byte, length) = match (text[at], digit(at + 1), digit(at + 2)) {
            (b'+', ..) => (b' ', 1),
            // Two hexadecimal digits fit a byte.
            (b'%', Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
            (byte, ..) => (byte, 1),
        };
        bytes.push(byte);
        at += length;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let form = Form::read(text.as_bytes());
        let pairs: Vec<(&str, &str)> =
            form.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, expected, "{text}");
    }

    #[test]
    fn read_decodes_fields() {
        check("", &[]);
        check("a=1&b=two+words&c=%C3%A9%0D%0A%26", &[("a", "1"), ("b", "two words"), ("c", "é\r\n&")]);
        check("a=1&a=2", &[("a", "2")]);
        check("a&=x&b=", &[("", "x"), ("a", ""), ("b", "")]);
        check("a=%&b=%4&c=%zz&d=%ff", &[("a", "%"), ("b", "%4"), ("c", "%zz"), ("d", "\u{fffd}")]);
    }
}
