//! What is taken out before anything is stored.
//!
//! I1. Rules see the strings inside a body as they are meant, not as they are escaped; its keys stay. I2. A body is valid
//! JSON afterwards, and every string that no rule matches is the same byte for byte. I3. Linking sees what is stored, and
//! nothing else, so that it is the same after a restart.
//!
//! A request and the answers that it repeats are redacted alike, because rules know nothing but the text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use memchr::{memchr, memchr2};
use regex::Regex;
use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;

/// How often each rule has matched.
pub(crate) type Redacted = BTreeMap<String, u64>;

/// Something that is never stored.
#[derive(Debug, Clone)]
pub struct RedactionRule {
    name: String,
    pattern: Regex,
}

/// A rule that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The name stands where the text was, so it has to be readable.
    #[error("the name `{0}` of a redaction rule has to be made of lower-case letters, digits and `-`")]
    Name(String),
    /// The pattern is no regular expression.
    #[error("the pattern of the redaction rule `{name}`: {why}")]
    Pattern {
        /// Of the rule.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It would put its mark between any two letters.
    #[error("the pattern of the redaction rule `{0}` matches nothing at all")]
    MatchesNothing(String),
}

impl RedactionRule {
    /// A rule: wherever `pattern` matches, `[redacted:name]` is stored. A group called `secret` in the pattern is all that is
    /// replaced, where it takes part.
    ///
    /// # Errors
    /// [`RuleError`]: what is wrong with name or pattern.
    pub fn new(name: &str, pattern: &str) -> Result<Self, RuleError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(RuleError::Name(name.to_owned()));
        }
        let pattern = Regex::new(pattern)
            .map_err(|error| RuleError::Pattern { name: name.to_owned(), why: error.to_string() })?;
        if pattern.is_match("") {
            return Err(RuleError::MatchesNothing(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), pattern })
    }

    /// Of the rule, as it stands in what is stored.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keys of common services, private keys and bearer tokens.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let rules = DEFAULTS.iter().map(|(name, pattern)| Self::new(name, pattern));
        rules.filter_map(Result::ok).collect()
    }
}

/// Names and patterns. What they look for has a beginning of its own: by its length alone, an id looks like a key.
const DEFAULTS: [(&str, &str); 9] = [
    // With its end where it has one, else as far as it looks like one.
    (
        "private-key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\sA-Za-z0-9+/=])*",
    ),
    // OpenAI, Anthropic, OpenRouter and whoever does as they do.
    ("sk-key", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ("aws-key-id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (
        "aws-secret",
        r#"(?i)aws_?secret_?(?:access_?)?key[\\"']{0,4}\s*[:=]\s*[\\"']{0,4}(?P<secret>[A-Za-z0-9/+]{40})"#,
    ),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("hugging-face-token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("bearer-token", r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)"),
];

/// All rules together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redaction {
    rules: Arc<[RedactionRule]>,
    /// The patterns of all rules at once: nearly no text has anything, and one look is faster than one for each. Nothing where they are too
    /// large together; then each is looked for.
    any: Option<meta::Regex>,
}

impl Redaction {
    pub(crate) fn new(rules: Vec<RedactionRule>) -> Self {
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        let settings = meta::Config::new().which_captures(WhichCaptures::None);
        let any = meta::Builder::new().configure(settings).build_many(&patterns).ok();
        Self { rules: rules.into(), any }
    }

    /// `text` without what matches, counted in `found`.
    pub(crate) fn text<'a>(&self, text: &'a str, found: &mut Redacted) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        // Where no rule matches, none has replaced anything that another one could match in.
        if self.any.as_ref().is_some_and(|any| !any.is_match(text.as_ref())) {
            return text;
        }
        for rule in self.rules.iter() {
            if let Some(replaced) = replace(rule, &text, found) {
                text = Cow::Owned(replaced);
            }
        }
        text
    }

    /// A JSON text without what matches in its strings; nothing where nothing does.
    pub(crate) fn json(&self, json: &str, found: &mut Redacted) -> Option<String> {
        let mut kept = String::new();
        let mut copied = 0;
        for (begin, end) in string_values(json) {
            let token = &json[begin..end];
            let inner = token.trim_matches('"');
            let meant = match memchr(b'\\', token.as_bytes()) {
                Some(_) => serde_json::from_str(token).map_or(Cow::Borrowed(inner), Cow::<str>::Owned),
                None => Cow::Borrowed(inner),
            };
            if let Cow::Owned(replaced) = self.text(&meant, found) {
                kept.push_str(&json[copied..begin]);
                kept.push_str(&serde_json::Value::String(replaced).to_string());
                copied = end;
            }
        }
        (copied > 0).then(|| kept + &json[copied..])
    }
}

/// Nothing where the rule does not match.
fn replace(rule: &RedactionRule, text: &str, found: &mut Redacted) -> Option<String> {
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in rule.pattern.captures_iter(text) {
        let secret = captures.name("secret").or_else(|| captures.get(0))?;
        replaced.push_str(&text[copied..secret.start()]);
        replaced.push_str("[redacted:");
        replaced.push_str(&rule.name);
        replaced.push(']');
        copied = secret.end();
        *found.entry(rule.name.clone()).or_default() += 1;
    }
    (copied > 0).then(|| replaced + &text[copied..])
}

/// Where the strings of a valid JSON text are that are no keys, with their quotes.
fn string_values(json: &str) -> Vec<(usize, usize)> {
    let bytes = json.as_bytes();
    let mut strings = Vec::new();
    let mut at = 0;
    while let Some(quote) = memchr(b'"', &bytes[at..]) {
        let begin = at + quote;
        at = begin + 1;
        // To behind the quote that ends it.
        while let Some(next) = memchr2(b'"', b'\\', &bytes[at..]) {
            at += next + 1;
            if bytes[at - 1] == b'"' {
                break;
            }
            at = (at + 1).min(bytes.len());
        }
        let is_key = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if !is_key {
            strings.push((begin, at));
        }
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut found = Redacted::new();
        let redaction = Redaction::new(RedactionRule::defaults());
        assert_eq!(redaction.text(text, &mut found), expected);
        assert_eq!(found.is_empty(), text == expected, "{found:?}");
    }

    fn check_json(json: &str, expected: Option<&str>) {
        let redaction = Redaction::new(RedactionRule::defaults());
        let redacted = redaction.json(json, &mut Redacted::new());
        assert_eq!(redacted.as_deref(), expected, "{json}");
        let _: serde_json::Value = serde_json::from_str(redacted.as_deref().unwrap_or(json)).unwrap();
    }

    #[test]
    fn all_defaults_are_rules() {
        assert_eq!(RedactionRule::defaults().len(), DEFAULTS.len());
    }

    #[test]
    fn keys_of_common_shapes() {
        check("my key is sk-proj-abcdefghijklmnop1234, ok?", "my key is [redacted:sk-key], ok?");
        check("sk-short and risk-abcdefghijklmnopqrst stay", "sk-short and risk-abcdefghijklmnopqrst stay");
        check("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted:github-token]");
        check("AKIAIOSFODNN7EXAMPLE", "[redacted:aws-key-id]");
        check(
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = [redacted:aws-secret]",
        );
        check("Authorization: Bearer abcdefghijklmnop.q==", "Authorization: Bearer [redacted:bearer-token]");
        check("the bearer of this letter", "the bearer of this letter");
        check(
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[redacted:private-key]\nb",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIEabc+/=\n. And then", "[redacted:private-key]. And then");
    }

    #[test]
    fn i2_json_stays_json() {
        check_json(r#"{"a": "hi \"you\"",  "n": 1.0e2}"#, None);
        check_json(
            r#"{"a": "x\" sk-abcdefghijklmnopqrst",  "n": 1.0e2, "b":"\u00e9"}"#,
            Some(r#"{"a": "x\" [redacted:sk-key]",  "n": 1.0e2, "b":"\u00e9"}"#),
        );
        // I1: as meant, however it is escaped; and in JSON inside of a string.
        check_json(r#"["\u0073k-abcdefghijklmnopqrst"]"#, Some(r#"["[redacted:sk-key]"]"#));
        check_json(
            r#"{"arguments":"{\"key\":\"sk-abcdefghijklmnopqrst\"}"}"#,
            Some(r#"{"arguments":"{\"key\":\"[redacted:sk-key]\"}"}"#),
        );
        check_json(r#"{"sk-abcdefghijklmnopqrst" : 1}"#, None);
        check_json(r#"["a\\", "b"]"#, None);
        check_json("[]", None);
    }

    #[test]
    fn rules_are_checked() {
        let error = |name, pattern| RedactionRule::new(name, pattern).map(|_| ()).unwrap_err().to_string();
        assert!(error("", "x").contains("made of lower-case letters"));
        assert!(error("a b", "x").contains("made of lower-case letters"));
        assert!(error("a", "(").starts_with("the pattern of the redaction rule `a`: "));
        assert!(error("a", "x*").contains("matches nothing"));
    }
}
