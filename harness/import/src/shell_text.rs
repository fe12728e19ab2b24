//! Quotes texts for a shell.

/// Any text as one word, quoted if necessary.
#[must_use]
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `env NAME=value ... ` before a command; empty without variables.
#[must_use]
pub(crate) fn with_variables<'v>(variables: impl IntoIterator<Item = (&'v str, &'v str)>) -> String {
    let words: String =
        variables.into_iter().map(|(name, value)| format!("{} ", word(&format!("{name}={value}")))).collect();
    if words.is_empty() { words } else { format!("env {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(word(text), expected);
    }

    #[test]
    fn words_are_quoted_if_necessary() {
        check("/a/b-c.sh", "/a/b-c.sh");
        check("", "''");
        check("it's $HOME", "'it'\\''s $HOME'");
        assert_eq!(with_variables([]), "");
        assert_eq!(with_variables([("A", "b c"), ("D", "e")]), "env 'A=b c' D=e ");
    }
}
