//! Detects texts that look like secrets, so that no secret is written to a file.
//!
//! C1. A value is refused if its name is that of a secret, or if the value has the form of a secret. C2. Ordinary values pass: host
//! names, versions, paths, words. C3. Ordinary URLs pass: their paths contain titles and names, so a path needs more evidence than a value.

use std::collections::HashMap;

/// Beginnings of keys that services hand out.
const KEY_BEGINNINGS: [&str; 15] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "hf_",
    "AIza",
];

/// Minimum characters behind such a beginning.
const MIN_SECRET_CHARS: usize = 12;

/// Schemes of the header Authorization that carry a secret.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

/// Minimum characters of a value that is judged by its letters.
const MIN_RANDOM_CHARS: usize = 32;

/// Bits a character has in random texts and not in words.
const RANDOM_BITS: f64 = 3.9;

/// Minimum share of adjacent characters in a random word of a path that change between letters and digits, or from lower to upper
/// case. In titles, capitals begin words and digits come in groups.
const RESTLESS: f64 = 0.25;

/// Parts of names that stand for secrets; whole words of a name.
const SECRET_WORDS: [&str; 8] =
    ["authorization", "token", "secret", "password", "passwd", "apikey", "credential", "credentials"];

/// Why the setting looks secret, as the end of a sentence; `None` if it may be written.
pub(crate) fn suspicion(name: &str, value: &str) -> Option<&'static str> {
    if value.trim().is_empty() {
        return None;
    }
    if names_secret(name) {
        return Some("has the name of a secret");
    }
    is_secret(value).then_some("looks like a secret")
}

/// Whether this is a name of secrets.
pub(crate) fn names_secret(name: &str) -> bool {
    let words: Vec<String> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect();
    let is_key = |at: usize, word: &str| word == "key" && (at > 0 || words.len() == 1);
    words.iter().enumerate().any(|(at, word)| SECRET_WORDS.contains(&word.as_str()) || is_key(at, word))
}

/// Whether a value has the form of a secret.
pub(crate) fn is_secret(value: &str) -> bool {
    let value = value.trim();
    let lower = value.to_ascii_lowercase();
    let has_scheme = SCHEMES.iter().any(|scheme| {
        lower.strip_prefix(scheme).is_some_and(|rest| rest.len() >= MIN_SECRET_CHARS && !rest.contains(' '))
    });
    has_scheme || words(value).any(|word| is_key(word) || is_random(word))
}

/// Whether the path of a URL contains a secret.
pub(crate) fn is_secret_path(path: &str) -> bool {
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    words(path).any(|word| is_key(word) && has_digit(word) || is_random(word) && is_restless(word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+')))
}

/// Whether the word begins with the prefix of a service's API keys.
fn is_key(word: &str) -> bool {
    KEY_BEGINNINGS
        .iter()
        .any(|begin| word.strip_prefix(begin).is_some_and(|rest| rest.len() >= MIN_SECRET_CHARS))
}

/// A long word of letters of both kinds and digits, none of them often.
fn is_random(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    word.len() >= MIN_RANDOM_CHARS
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && bits(word) >= RANDOM_BITS
}

/// Whether lower case, upper case and digits alternate more than in any written word.
fn is_restless(word: &str) -> bool {
    let is_change = |pair: &[u8]| {
        let is_letter = |at: usize| pair[at].is_ascii_alphabetic();
        let is_digit = |at: usize| pair[at].is_ascii_digit();
        is_letter(0) && is_digit(1)
            || is_digit(0) && is_letter(1)
            || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
    };
    let changes = word.as_bytes().windows(2).filter(|pair| is_change(pair)).count();
    changes as f64 >= RESTLESS * word.len() as f64
}

/// Bits of information of a character, by how often each occurs.
fn bits(word: &str) -> f64 {
    let mut counts: HashMap<u8, u32> = HashMap::new();
    for byte in word.bytes() {
        *counts.entry(byte).or_default() += 1;
    }
    let length = word.len() as f64;
    counts.values().map(|&count| f64::from(count) / length).map(|part| -part * part.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: bool) {
        assert_eq!(suspicion(name, value).is_some(), expected, "{name}: {value}");
    }

    #[test]
    fn c1_names_and_forms_of_secrets_are_known() {
        for name in [
            "Authorization",
            "API_KEY",
            "X-Api-Key",
            "DOCS_TOKEN",
            "client-secret",
            "PASSWORD",
            "apikey",
            "key",
        ] {
            check(name, "anything", true);
        }
        for value in [
            "sk-abcdefghijklmnop",
            "ghp_0123456789abcdef",
            "Bearer abcdefghijklmnop",
            "--token=ghp_0123456789abcdef",
            "q7Zt0VxKc3RmW9uYb2NfE5hJp8LsDa1G",
        ] {
            check("X", value, true);
        }
    }

    #[test]
    fn c3_keys_in_paths_are_known_and_titles_pass() {
        let check = |path: &str, expected: bool| assert_eq!(is_secret_path(path), expected, "{path}");
        check("/v1/sk-proj0123456789ab/mcp", true);
        check("/services/xoxb-123456789012-abc", true);
        check("/s/q7Zt0VxKc3RmW9uYb2NfE5hJp8LsDa1G/mcp", true);
        check("/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawZ/send", true);
        check("/docs/sk-learn-introduction/", false);
        check("/blog/Getting-Started-with-Version-2-of-the-Api", false);
        check("/images/k8s-v1-30-x86_64-Ubuntu22-04-LTS-gen2-hvm-ebs", false);
        check("/api/GettingStartedWithVersion2OfTheNewApi", false);
        check("/items/123e4567-e89b-12d3-a456-426614174000", false);
        check("/commit/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", false);
    }

    #[test]
    fn c2_ordinary_values_pass() {
        for (name, value) in [
            ("Accept", "application/json"),
            ("X-Keyboard", "qwerty"),
            ("KEYS_FILE", "/etc/x"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/Some/Long/Path1"),
            ("TZ", "Europe/Berlin"),
            ("UUID", "123e4567-e89b-12d3-a456-426614174000"),
            ("HASH", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
            ("X", "Bearer of news"),
            ("SENTENCE", "Thirty2 characters and More are here, in words"),
            ("API_KEY", ""),
        ] {
            check(name, value, false);
        }
    }
}
