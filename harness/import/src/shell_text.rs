//! Text that a shell reads as one word.

/// A word of any content, quoted where it has to be.
#[must_use]
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `env NAME=value ... ` before a command; nothing without variables.
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
    fn words_are_quoted_where_they_have_to_be() {
        check("/a/b-c.sh", "/a/b-c.sh");
        check("", "''");
        check("it's $HOME", "'it'\\''s $HOME'");
        assert_eq!(with_variables([]), "");
        assert_eq!(with_variables([("A", "b c"), ("D", "e")]), "env 'A=b c' D=e ");
    }
}
