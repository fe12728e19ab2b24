//! Texts of a plan that may be secret: literal, or named by an environment variable.
//!
//! I1. A plan never contains a secret: it names a variable, and the process that runs the plan reads it.

use serde::{Deserialize, Serialize};

/// Source of a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextSource {
    /// A literal text that is not secret.
    Literal(String),
    /// The value of an environment variable of the harness.
    FromEnv {
        /// Name of the variable.
        name: String,
        /// Stands before its value.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
    },
}

impl TextSource {
    /// The variable that is read, if one is.
    #[must_use]
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::FromEnv { name, .. } => Some(name),
        }
    }

    /// The text, using `look_up` for the variable; `None` if the variable has no value.
    #[must_use]
    pub fn text(&self, look_up: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Literal(text) => Some(text.clone()),
            Self::FromEnv { name, prefix } => Some(format!("{prefix}{}", look_up(name)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_looked_up_and_texts_are_not() {
        let check = |source: TextSource, variable: Option<&str>, expected: Option<&str>| {
            let found = source.text(|name| (name == "KEY").then(|| "value".to_owned()));
            assert_eq!((source.variable(), found.as_deref()), (variable, expected), "{source:?}");
        };
        let from = |name: &str| TextSource::FromEnv { name: name.to_owned(), prefix: "Bearer ".to_owned() };
        check(TextSource::Literal("KEY".to_owned()), None, Some("KEY"));
        check(from("KEY"), Some("KEY"), Some("Bearer value"));
        check(from("OTHER"), Some("OTHER"), None);
    }
}
