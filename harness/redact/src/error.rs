//! Secrets and rules that cannot be used.

use thiserror::Error;

/// Reason to refuse a secret. No message contains the value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// The value would be found in ordinary texts.
    #[error(
        "the value of {name} has {bytes} bytes; a secret needs at least {min} to differ from ordinary text"
    )]
    TooShort {
        /// Name of the secret.
        name: String,
        /// Length of the value.
        bytes: usize,
        /// Shortest length that is allowed.
        min: usize,
    },
    /// The value is longer than any key.
    #[error("the value of {name} has {bytes} bytes; a secret may have at most {max}")]
    TooLong {
        /// Name of the secret.
        name: String,
        /// Length of the value.
        bytes: usize,
        /// Longest length that is allowed.
        max: usize,
    },
    /// The marks of redacted values contain the value.
    #[error("the value of {name} is a part of the mark that would replace it")]
    InMark {
        /// Name of the secret.
        name: String,
    },
}

/// Reason to refuse a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// The mark shows the name, so it must be readable.
    #[error("`{0}` cannot name a redaction rule: a name consists of lower-case letters, digits and `-`")]
    Name(String),
    /// The pattern is not a regular expression.
    #[error("the pattern of the redaction rule `{name}`: {why}")]
    Pattern {
        /// Name of the rule.
        name: String,
        /// Message of the parser.
        why: String,
    },
    /// The rule would insert its mark between any two characters.
    #[error(
        "the pattern of the redaction rule `{0}` matches the empty text; it has to match at least one character"
    )]
    MatchesEmpty(String),
}
