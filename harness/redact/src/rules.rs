//! Removes texts that look like keys.
//!
//! Rules depend on nothing but the text, so a request and the earlier answers that it repeats are redacted alike.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use memchr::{memchr, memchr2};
use regex::{Regex, RegexSet};

use crate::RuleError;

/// Number of matches by name of the rule.
pub type RuleCounts = BTreeMap<String, u64>;

/// A pattern of texts that are never stored.
#[derive(Debug, Clone)]
pub struct RedactionRule {
    name: String,
    pattern: Regex,
}

impl RedactionRule {
    /// Replaces each match of `pattern` by `[redacted:name]`. If the pattern has a group `secret` that takes part in a match,
    /// only that group is replaced.
    ///
    /// # Errors
    /// [`RuleError`] for a name or a pattern that cannot be used.
    pub fn new(name: &str, pattern: &str) -> Result<Self, RuleError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(RuleError::Name(name.to_owned()));
        }
        let pattern = Regex::new(pattern)
            .map_err(|error| RuleError::Pattern { name: name.to_owned(), why: error.to_string() })?;
        if pattern.is_match("") {
            return Err(RuleError::MatchesEmpty(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), pattern })
    }

    /// The name that the mark shows.
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

/// Names and patterns. Each pattern has a distinctive beginning: by its length alone, an id looks like a key.
const DEFAULTS: [(&str, &str); 9] = [
    // Up to its end line if there is one, else as far as the text looks like a key.
    (
        "private-key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\sA-Za-z0-9+/=])*",
    ),
    // OpenAI, Anthropic, OpenRouter and services that follow them.
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

/// Applies rules in their order.
#[derive(Debug, Clone, Default)]
pub struct RuleRedactor {
    rules: Arc<[RedactionRule]>,
    /// The patterns of all rules together: few texts hold a match, and one search is faster than one for each rule. `None`
    /// if they are too large together; then each rule searches.
    any: Option<RegexSet>,
}

impl RuleRedactor {
    /// A redactor with these rules.
    #[must_use]
    pub fn new(rules: Vec<RedactionRule>) -> Self {
        let any = RegexSet::new(rules.iter().map(|rule| rule.pattern.as_str())).ok();
        Self { rules: rules.into(), any }
    }

    /// The text without matches, which are counted.
    pub fn redact<'a>(&self, text: &'a str, counts: &mut RuleCounts) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        // If no rule matches, no rule inserts a text that another rule could match.
        if self.any.as_ref().is_some_and(|any| !any.is_match(text.as_ref())) {
            return text;
        }
        for rule in self.rules.iter() {
            if let Some(replaced) = replace(rule, &text, counts) {
                text = Cow::Owned(replaced);
            }
        }
        text
    }

    /// A valid JSON text without matches in its strings (I6); `None` if there are none. Matches are counted.
    pub fn redact_json(&self, json: &str, counts: &mut RuleCounts) -> Option<String> {
        let mut kept = String::new();
        let mut copied = 0;
        for (begin, end) in string_values(json) {
            let token = &json[begin..end];
            let inner = token.trim_matches('"');
            let unescaped = match memchr(b'\\', token.as_bytes()) {
                Some(_) => serde_json::from_str(token).map_or(Cow::Borrowed(inner), Cow::<str>::Owned),
                None => Cow::Borrowed(inner),
            };
            if let Cow::Owned(replaced) = self.redact(&unescaped, counts) {
                kept.push_str(&json[copied..begin]);
                kept.push_str(&serde_json::Value::String(replaced).to_string());
                copied = end;
            }
        }
        (copied > 0).then(|| kept + &json[copied..])
    }
}

/// The text without matches of one rule; `None` if there are none.
fn replace(rule: &RedactionRule, text: &str, counts: &mut RuleCounts) -> Option<String> {
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in rule.pattern.captures_iter(text) {
        let secret = captures.name("secret").or_else(|| captures.get(0))?;
        replaced.push_str(&text[copied..secret.start()]);
        replaced.push_str("[redacted:");
        replaced.push_str(&rule.name);
        replaced.push(']');
        copied = secret.end();
        *counts.entry(rule.name.clone()).or_default() += 1;
    }
    (copied > 0).then(|| replaced + &text[copied..])
}

/// Byte ranges of the strings of a valid JSON text that are not keys, with their quotes.
fn string_values(json: &str) -> Vec<(usize, usize)> {
    let bytes = json.as_bytes();
    let mut strings = Vec::new();
    let mut at = 0;
    while let Some(quote) = memchr(b'"', &bytes[at..]) {
        let begin = at + quote;
        at = begin + 1;
        // Up to the closing quote.
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
        let mut counts = RuleCounts::new();
        let redactor = RuleRedactor::new(RedactionRule::defaults());
        assert_eq!(redactor.redact(text, &mut counts), expected);
        assert_eq!(counts.is_empty(), text == expected, "{counts:?}");
    }

    fn check_json(json: &str, expected: Option<&str>) {
        let redactor = RuleRedactor::new(RedactionRule::defaults());
        let redacted = redactor.redact_json(json, &mut RuleCounts::new());
        assert_eq!(redacted.as_deref(), expected, "{json}");
        let _: serde_json::Value = serde_json::from_str(redacted.as_deref().unwrap_or(json)).unwrap();
    }

    #[test]
    fn default_rules_compile() {
        assert_eq!(RedactionRule::defaults().len(), DEFAULTS.len());
    }

    #[test]
    fn common_keys_are_redacted() {
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
    fn i6_json_stays_json() {
        check_json(r#"{"a": "hi \"you\"",  "n": 1.0e2}"#, None);
        check_json(
            r#"{"a": "x\" sk-abcdefghijklmnopqrst",  "n": 1.0e2, "b":"\u00e9"}"#,
            Some(r#"{"a": "x\" [redacted:sk-key]",  "n": 1.0e2, "b":"\u00e9"}"#),
        );
        // Unescaped, and in JSON inside a string.
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
    fn bad_rules_are_refused() {
        let error = |name, pattern| RedactionRule::new(name, pattern).map(|_| ()).unwrap_err().to_string();
        assert!(error("", "x").contains("a name consists of"));
        assert!(error("a b", "x").contains("a name consists of"));
        assert!(error("a", "(").starts_with("the pattern of the redaction rule `a`: "));
        assert!(error("a", "x*").contains("matches the empty text"));
    }
}
